"""Points in the order of events, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from rewards.plugin import handlers


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


def points(programme: TestInbox) -> dict[int, int]:
    rows = programme.fetch("SELECT user_id, points FROM rewards.accounts")
    return {row["user_id"]: row["points"] for row in rows}


def test_the_order_of_purchase_and_refund_matters(inbox: TestInbox) -> None:
    inbox.execute("INSERT INTO rewards.accounts VALUES (1), (2)")
    inbox.emit("purchase.completed", {"user_id": 1, "amount": 50})
    inbox.emit("purchase.refunded", {"user_id": 1, "amount": 100})
    inbox.emit("purchase.refunded", {"user_id": 2, "amount": 100})
    inbox.emit("purchase.completed", {"user_id": 2, "amount": 50})
    inbox.drain()
    assert points(inbox) == {1: 0, 2: 50}


def test_later_events_of_a_user_wait_for_one_that_fails(inbox: TestInbox) -> None:
    """A user has no account yet: the first event is tried again, and the others wait for it."""
    inbox.execute("INSERT INTO rewards.accounts VALUES (2)")
    for user in (1, 2):
        inbox.emit("purchase.completed", {"user_id": user, "amount": 100})
        inbox.emit("bonus.granted", {"user_id": user, "percent": 10})

    drained = inbox.drain(check=False)
    assert [row.payload["user_id"] for row in drained.retrying] == [1]
    assert [row.type for row in drained.left] == ["bonus.granted"]
    assert points(inbox) == {2: 110}

    inbox.execute("INSERT INTO rewards.accounts VALUES (1)")
    inbox.travel("1h")
    inbox.drain()
    assert points(inbox) == {1: 110, 2: 110}
