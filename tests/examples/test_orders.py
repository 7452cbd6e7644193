"""The orders of a suspect user: the handlers by themselves, then a worker that runs them."""

from collections.abc import AsyncIterator
from importlib.resources import files

import pytest

from inboxd import Connection
from inboxd.model.outcome import Succeeded
from inboxd.testing import run_command, run_event
from orders.plugin import handlers
from tests.support import Database, StartWorker
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

BECAME_SUSPECT = {"user_id": 7, "previous": "active", "current": "suspect"}


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Connection]:
    """A shop: two users, with orders in all states."""
    async with database.connect() as connection:
        await connection.execute(files("orders").joinpath("schema.sql").read_text())
        await connection.execute(
            """
            INSERT INTO shop.users VALUES (7, 'BR'), (8, 'BR');
            INSERT INTO shop.orders (order_id, user_id, state, amount, card_country)
                 VALUES (1, 7, 'active', 90, 'BR'), (2, 7, 'active', 900, 'US'),
                        (3, 7, 'active', 10, NULL), (4, 7, 'shipped', 500, 'US'),
                        (5, 8, 'active', 500, 'US');
            """
        )
        yield connection


async def states(shop: Connection) -> dict[int, str]:
    rows = await shop.fetch("SELECT order_id, state FROM shop.orders ORDER BY 1")
    return {row["order_id"]: row["state"] for row in rows}


async def test_each_active_order_is_reviewed(shop: Connection) -> None:
    result = await run_event(
        handlers, "user.status_updated", BECAME_SUSPECT, topic="fraud", connection=shop
    )
    assert isinstance(result.outcome, Succeeded)
    (batch,) = result.batches
    assert [command.payload["order_id"] for command in batch.commands] == [1, 2, 3]


@pytest.mark.parametrize(("previous", "current"), [("suspect", "suspect"), ("suspect", "active")])
async def test_only_who_becomes_suspect_is_reviewed(
    shop: Connection, previous: str, current: str
) -> None:
    payload = {"user_id": 7, "previous": previous, "current": current}
    result = await run_event(
        handlers, "user.status_updated", payload, topic="fraud", connection=shop
    )
    assert not result.batches


async def test_a_card_from_elsewhere_holds_the_order(shop: Connection) -> None:
    results = []
    for order in (1, 2, 3, 4):
        done = await run_command(
            handlers, "orders.review_order", {"order_id": order}, connection=shop
        )
        assert isinstance(done.outcome, Succeeded)
        results.append(done.outcome.result)
    assert results == ['"fine"', '"held"', '"fine"', '"gone"']


async def test_a_worker_flags_the_orders(shop: Connection, start_worker: StartWorker) -> None:
    await start_worker({"worker": {"plugins": ["orders"]}})
    await shop.execute(
        "INSERT INTO inboxd.events (type, payload) VALUES ('user.status_updated', "
        """'{"user": 7, "from": "ATIVO", "to": "SUSPEITO"}')"""
    )

    async def is_closed() -> bool:
        return bool(await shop.fetchval("SELECT count(*) FROM shop.reviews WHERE held = 1"))

    await eventually(is_closed)
    assert await states(shop) == {1: "active", 2: "held", 3: "active", 4: "shipped", 5: "active"}
    assert (
        await shop.fetchval("SELECT flagged FROM shop.orders WHERE order_id = 2")
        == "card from US, user from BR"
    )
    assert await shop.fetchval("SELECT topic FROM inboxd.events_history") == "fraud"
