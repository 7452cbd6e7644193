"""Suspect users and products, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

from datetime import timedelta

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from orders.plugin import handlers

BECAME_SUSPECT = {"user_id": 7, "previous": "active", "current": "suspect"}
IS_CLEARED = {"user_id": 7, "previous": "suspect", "current": "active"}
LAMP_IS_SUSPECT = {"product_id": 2, "previous": "offered", "current": "suspect"}


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


@pytest.fixture
def shop(inbox: TestInbox) -> TestInbox:
    """Two users with orders in all states; the plugin's migrations have created the tables."""
    inbox.execute(
        """
        INSERT INTO shop.users (user_id, country) VALUES (7, 'BR'), (8, 'BR');
        INSERT INTO shop.products (product_id) VALUES (1), (2);
        INSERT INTO shop.orders (order_id, user_id, product_id, state, amount, card_country)
             VALUES (1, 7, 1, 'active', 90, 'BR'), (2, 7, 1, 'active', 900, 'US'),
                    (3, 7, 2, 'active', 10, NULL), (4, 7, 2, 'shipped', 500, 'US'),
                    (5, 8, 2, 'active', 500, 'US');
        """
    )
    return inbox


def states(shop: TestInbox) -> dict[int, str]:
    rows = shop.fetch("SELECT order_id, state FROM shop.orders ORDER BY 1")
    return {row["order_id"]: row["state"] for row in rows}


@pytest.mark.parametrize(
    ("type_", "payload", "reviewed"),
    [
        ("user.status_updated", BECAME_SUSPECT, [1, 2, 3]),
        ("user.status_updated", IS_CLEARED, [1, 2, 3]),
        ("product.status_updated", LAMP_IS_SUSPECT, [3, 5]),
    ],
)
def test_each_open_order_is_reviewed(
    shop: TestInbox, type_: str, payload: dict[str, object], reviewed: list[int]
) -> None:
    shop.emit(type_, payload, schema_version=2 if "user_id" in payload else 1)
    shop.drain()
    sent = shop.commands("orders.review_order")
    assert [command.payload["order_id"] for command in sent] == reviewed


@pytest.mark.parametrize(
    ("previous", "current"), [("suspect", "suspect"), ("active", "closed"), ("active", "active")]
)
def test_a_change_that_does_not_involve_suspect_reviews_nothing(
    shop: TestInbox, previous: str, current: str
) -> None:
    changed = {"user_id": 7, "previous": previous, "current": current}
    shop.emit("user.status_updated", changed, schema_version=2)
    shop.drain()
    shop.refute_sent("orders.review_order")
    assert shop.fetchval("SELECT status FROM shop.users WHERE user_id = 7") == current


def test_a_late_event_does_not_change_the_status(shop: TestInbox) -> None:
    """Single mode promises no order: the newest event sets the status."""
    now = shop.now()
    shop.emit("user.status_updated", IS_CLEARED, schema_version=2, occurred_at=now)
    shop.drain()
    before = now - timedelta(minutes=1)
    shop.emit("user.status_updated", BECAME_SUSPECT, schema_version=2, occurred_at=before)
    shop.drain()
    assert shop.fetchval("SELECT status FROM shop.users WHERE user_id = 7") == "active"


def test_a_foreign_card_holds_the_order_while_its_user_is_suspect(shop: TestInbox) -> None:
    def review() -> list[object]:
        sent = [shop.send("orders.review_order", {"order_id": order}) for order in (1, 2, 3, 4)]
        shop.drain()
        ids = {receipt.id for receipt in sent}
        return [row.result for row in shop.commands("orders.review_order") if row.id in ids]

    shop.execute("UPDATE shop.users SET status = 'suspect' WHERE user_id = 7")
    assert review() == ["unchanged", "held", "unchanged", "gone"]
    shop.execute("UPDATE shop.users SET status = 'active' WHERE user_id = 7")
    assert review() == ["unchanged", "freed", "unchanged", "gone"]
    assert shop.fetchval("SELECT count(*) FROM shop.orders WHERE flagged IS NOT NULL") == 0


def test_orders_are_held_for_two_sources_and_freed(shop: TestInbox) -> None:
    # Version 1, as an old service still publishes it.
    shop.emit("user.status_updated", {"user": 7, "from": "ATIVO", "to": "SUSPEITO"})
    shop.emit("product.status_updated", LAMP_IS_SUSPECT)
    shop.drain()
    assert states(shop) == {1: "active", 2: "held", 3: "held", 4: "shipped", 5: "held"}
    flagged = shop.fetch("SELECT order_id, flagged FROM shop.orders WHERE flagged IS NOT NULL")
    assert {row[0]: row[1] for row in flagged} == {
        2: "card from US, user from BR",
        3: "product 2 is suspect",
        5: "product 2 is suspect",
    }
    assert shop.fetchval("SELECT held FROM shop.reviews WHERE cause = 'product 2'") == 2

    shop.emit("user.status_updated", IS_CLEARED, schema_version=2)
    shop.drain()
    assert states(shop) == {1: "active", 2: "active", 3: "held", 4: "shipped", 5: "held"}
    notices = shop.fetch("SELECT text FROM shop.notices WHERE order_id = 2 ORDER BY id")
    assert [row["text"] for row in notices] == [
        "Your order 2 is being checked.",
        "Your order 2 is on its way again.",
    ]
    shop.assert_emitted("order.state_changed", {"order_id": 2}, count=2, origin_kind="command")
