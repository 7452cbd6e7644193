"""Suspect users and products: the handlers on a real database, then a worker that runs them."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from inboxd import Connection
from inboxd.store.plugin_migrations import migrate
from inboxd.testing import Succeeded, run_command, run_event
from orders.plugin import handlers
from tests.support import Database, StartWorker
from tests.support.rows import settings_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

BECAME_SUSPECT = {"user_id": 7, "previous": "active", "current": "suspect"}
IS_CLEARED = {"user_id": 7, "previous": "suspect", "current": "active"}


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Connection]:
    """A shop: two users, with orders in all states."""
    await migrate(settings_of(database), ["orders"])
    async with database.connect() as connection:
        await connection.execute(
            """
            INSERT INTO shop.users (user_id, country) VALUES (7, 'BR'), (8, 'BR');
            INSERT INTO shop.products (product_id) VALUES (1), (2);
            INSERT INTO shop.orders (order_id, user_id, product_id, state, amount, card_country)
                 VALUES (1, 7, 1, 'active', 90, 'BR'), (2, 7, 1, 'active', 900, 'US'),
                        (3, 7, 2, 'active', 10, NULL), (4, 7, 2, 'shipped', 500, 'US'),
                        (5, 8, 2, 'active', 500, 'US');
            """
        )
        yield connection


async def states(shop: Connection) -> dict[int, str]:
    rows = await shop.fetch("SELECT order_id, state FROM shop.orders ORDER BY 1")
    return {row["order_id"]: row["state"] for row in rows}


@pytest.mark.parametrize(
    ("type_", "payload", "reviewed"),
    [
        ("user.status_updated", BECAME_SUSPECT, [1, 2, 3]),
        ("user.status_updated", IS_CLEARED, [1, 2, 3]),
        (
            "product.status_updated",
            {"product_id": 2, "previous": "offered", "current": "suspect"},
            [3, 5],
        ),
    ],
)
async def test_each_open_order_is_reviewed(
    shop: Connection, type_: str, payload: dict[str, object], reviewed: list[int]
) -> None:
    result = await run_event(handlers, type_, payload, topic="fraud", connection=shop)
    assert isinstance(result.outcome, Succeeded), result.error
    (batch,) = result.batches
    assert [command.payload["order_id"] for command in batch.commands] == reviewed


@pytest.mark.parametrize(
    ("previous", "current"), [("suspect", "suspect"), ("active", "closed"), ("active", "active")]
)
async def test_a_change_that_does_not_involve_suspect_reviews_nothing(
    shop: Connection, previous: str, current: str
) -> None:
    payload = {"user_id": 7, "previous": previous, "current": current}
    result = await run_event(
        handlers, "user.status_updated", payload, topic="fraud", connection=shop
    )
    assert isinstance(result.outcome, Succeeded), result.error
    assert not result.batches
    assert await shop.fetchval("SELECT status FROM shop.users WHERE user_id = 7") == current


async def test_what_comes_late_changes_nothing(shop: Connection) -> None:
    """Single mode promises no order: the newest says what a user is."""
    now = datetime.now(UTC)
    for payload, occurred_at in ((IS_CLEARED, now), (BECAME_SUSPECT, now - timedelta(minutes=1))):
        result = await run_event(
            handlers,
            "user.status_updated",
            payload,
            topic="fraud",
            connection=shop,
            occurred_at=occurred_at,
        )
        assert isinstance(result.outcome, Succeeded), result.error
    assert await shop.fetchval("SELECT status FROM shop.users WHERE user_id = 7") == "active"


async def test_a_card_from_elsewhere_holds_the_order_while_its_user_is_suspect(
    shop: Connection,
) -> None:
    async def review() -> list[str | None]:
        results = []
        for order in (1, 2, 3, 4):
            done = await run_command(
                handlers, "orders.review_order", {"order_id": order}, connection=shop
            )
            assert isinstance(done.outcome, Succeeded), done.error
            results.append(done.outcome.result)
        return results

    await shop.execute("UPDATE shop.users SET status = 'suspect' WHERE user_id = 7")
    assert await review() == ['"as it was"', '"held"', '"as it was"', '"gone"']
    await shop.execute("UPDATE shop.users SET status = 'active' WHERE user_id = 7")
    assert await review() == ['"as it was"', '"freed"', '"as it was"', '"gone"']
    flagged = await shop.fetchval("SELECT count(*) FROM shop.orders WHERE flagged IS NOT NULL")
    assert flagged == 0


async def test_a_worker_holds_orders_for_two_sources_and_frees_them(
    shop: Connection, start_worker: StartWorker
) -> None:
    await start_worker({"worker": {"plugins": ["orders"]}})

    async def closed(reviews: int) -> None:
        async def are_closed() -> bool:
            done = "SELECT count(*) FROM shop.reviews WHERE held IS NOT NULL"
            return bool(await shop.fetchval(done) == reviews)

        await eventually(are_closed)

    await shop.execute(
        "INSERT INTO inboxd.events (type, payload) VALUES ('user.status_updated', "
        """'{"user": 7, "from": "ATIVO", "to": "SUSPEITO"}'),"""
        "('product.status_updated', "
        """'{"product_id": 2, "previous": "offered", "current": "suspect"}')"""
    )
    await closed(2)
    assert await states(shop) == {1: "active", 2: "held", 3: "held", 4: "shipped", 5: "held"}
    flagged = await shop.fetch("SELECT order_id, flagged FROM shop.orders")
    assert {row[0]: row[1] for row in flagged} == {
        1: None,
        2: "card from US, user from BR",
        3: "product 2 is suspect",
        4: None,
        5: "product 2 is suspect",
    }
    assert await shop.fetchval("SELECT held FROM shop.reviews WHERE cause = 'product 2'") == 2
    await shop.execute(
        "INSERT INTO inboxd.events (type, schema_version, payload) VALUES ($1, 2, $2)",
        "user.status_updated",
        json.dumps(IS_CLEARED),
    )
    await closed(3)
    assert await states(shop) == {1: "active", 2: "active", 3: "held", 4: "shipped", 5: "held"}

    async def notices() -> list[str]:
        told = "SELECT text FROM shop.notices WHERE order_id = 2 ORDER BY id"
        found = [row["text"] for row in await shop.fetch(told)]
        return found if len(found) > 1 else []

    assert await eventually(notices) == [
        "Your order 2 is being checked.",
        "Your order 2 is on its way again.",
    ]
    # Event, command, event: one story for each of those that began it.
    stories = await shop.fetch(
        """
        SELECT cause.payload ->> 'user_id' AS user_id, told.origin_kind, count(*)
          FROM inboxd.events_history told
          JOIN inboxd.events_history cause ON cause.event_id::text = told.correlation_id
         WHERE told.type = 'order.state_changed' AND told.payload @> '{"order_id": 2}'
         GROUP BY 1, 2
        """
    )
    assert sum(row["count"] for row in stories) == 2
    assert {row["origin_kind"] for row in stories} == {"command"}
    assert {row["user_id"] for row in stories} == {"7", None}, "a user began one, a product one"
