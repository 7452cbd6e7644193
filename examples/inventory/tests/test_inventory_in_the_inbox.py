"""Stock goes down once, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from inventory.plugin import handlers

ORDERS = [{"order_id": f"order-{n}", "article": "lamp", "pieces": n % 3 + 1} for n in range(9)]
PIECES = 18


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


@pytest.fixture
def warehouse(inbox: TestInbox) -> TestInbox:
    """A warehouse with 1,000 lamps; the plugin's migrations have created its tables."""
    inbox.execute(
        "INSERT INTO warehouse.stock VALUES ('lamp', 1000);"
        "INSERT INTO warehouse.careless_stock VALUES ('lamp', 1000)"
    )
    return inbox


def taken(warehouse: TestInbox, table: str) -> int:
    return 1000 - int(warehouse.fetchval(f"SELECT pieces FROM warehouse.{table}"))


def test_every_event_is_delivered_twice_and_counts_once(warehouse: TestInbox) -> None:
    """Each delivery has another event id: the topic recognizes an order by its own id."""
    for _ in range(2):
        for order in ORDERS:
            warehouse.emit("order.created", order)
        warehouse.drain()

    assert taken(warehouse, "stock") == PIECES
    assert taken(warehouse, "careless_stock") == 2 * PIECES
    assert len(warehouse.events("order.created", topic="stock")) == len(ORDERS)


def test_a_second_delivery_with_another_payload_is_a_dead_letter(
    warehouse: TestInbox,
) -> None:
    warehouse.emit("order.created", ORDERS[0])
    warehouse.emit("order.created", {**ORDERS[0], "pieces": 7})
    warehouse.drain()
    assert taken(warehouse, "stock") == 1
    dead = warehouse.assert_emitted("order.created", topic="stock", status="failed", count=1)
    assert dead.payload["pieces"] == 7
