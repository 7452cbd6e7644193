"""Stock goes down once, on a real database: `pip install 'inboxd[embedded]' pytest`."""

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from inventory.plugin import handlers

ORDERS = [{"order_id": f"order-{n}", "article": "lamp", "pieces": n % 3 + 1} for n in range(9)]
PIECES = 18


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Only these, whatever else is installed."""
    return handlers


@pytest.fixture
def warehouse(inbox: TestInbox) -> TestInbox:
    """A warehouse with a thousand lamps. Its tables are the plugin's migrations."""
    inbox.execute(
        "INSERT INTO warehouse.stock VALUES ('lamp', 1000);"
        "INSERT INTO warehouse.careless_stock VALUES ('lamp', 1000)"
    )
    return inbox


def taken(warehouse: TestInbox, table: str) -> int:
    return 1000 - int(warehouse.fetchval(f"SELECT pieces FROM warehouse.{table}"))


def test_every_event_is_delivered_twice_and_counts_once(warehouse: TestInbox) -> None:
    """Each delivery under an id of its own: the topic knows an order by its number."""
    for _ in range(2):
        for order in ORDERS:
            warehouse.emit("order.created", order)
        warehouse.drain()

    assert taken(warehouse, "stock") == PIECES
    assert taken(warehouse, "careless_stock") == 2 * PIECES
    assert len(warehouse.events("order.created", topic="stock")) == len(ORDERS)


def test_an_order_that_says_something_else_the_second_time_is_a_dead_letter(
    warehouse: TestInbox,
) -> None:
    warehouse.emit("order.created", ORDERS[0])
    warehouse.emit("order.created", {**ORDERS[0], "pieces": 7})
    warehouse.drain()
    assert taken(warehouse, "stock") == 1
    dead = warehouse.assert_emitted("order.created", topic="stock", status="failed", count=1)
    assert dead.payload["pieces"] == 7
