"""Parcels on a real database, with a busy carrier.

To run it: `pip install 'inboxd[embedded,http]' pytest`, then `pytest tests`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from parcels.plugin import handlers
from parcels.stage.carrier import Carrier, served


@pytest.fixture
def carrier() -> Iterator[tuple[Carrier, int]]:
    """A carrier that answers every second request with 503, and its port."""
    found = Carrier(busy_every=2)
    with served(found) as port:
        yield found, port


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


@pytest.fixture
def inboxd_settings(carrier: tuple[Carrier, int]) -> Mapping[str, Mapping[str, Any]]:
    """The carrier's address: the stand-in runs on this machine."""
    url = f"http://127.0.0.1:{carrier[1]}"
    return {"targets": {"carrier": {"url": url, "allow": ["127.0.0.0/8"]}}}


def test_each_order_becomes_one_parcel(inbox: TestInbox, carrier: tuple[Carrier, int]) -> None:
    for order in range(4):
        inbox.emit("order.paid", {"order_id": order, "address": f"Rua das Flores {order + 1}"})
    inbox.emit("order.paid", {"order_id": 9, "address": "nowhere"})

    for _ in range(12):  # requests that got 503 are tried again
        inbox.drain(check=False)
        inbox.travel("1h")

    rows = inbox.fetch("SELECT order_id, state, number FROM dispatch.parcels ORDER BY order_id")
    assert [row["state"] for row in rows] == ["booked"] * 4 + ["refused"]
    booked = {each["number"] for each in carrier[0].booked.values()}
    assert {row["number"] for row in rows[:4]} == booked
    assert len(booked) == 4
    assert len(inbox.events("parcel.booked")) == 4
    inbox.assert_emitted("parcel.refused", {"order_id": 9})
