"""Midnights pass, on a real database.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from inboxd import Handlers
from inboxd.testing import TestInbox
from ledger.plugin import handlers

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return handlers


def book(bank: TestInbox, amount: str, currency: str = "EUR") -> None:
    booked = {"branch": "Mitte", "currency": currency, "amount": amount}
    bank.emit("transaction.booked", booked)


def reports(bank: TestInbox) -> list[tuple[Any, ...]]:
    rows = bank.fetch(
        "SELECT day, currency, transactions, total, average, largest"
        " FROM bank.daily_reports ORDER BY 1, 2"
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(
    "day", [date(2031, 3, 30), date(2031, 10, 26), date(2031, 6, 1)], ids=["23h", "25h", "24h"]
)
def test_a_day_is_reported_at_midnight_with_its_date(inbox: TestInbox, day: date) -> None:
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN)
    inbox.travel(to=noon)
    for amount, currency in (("0.10", "EUR"), ("0.20", "EUR"), ("-5", "USD"), ("0.00", "EUR")):
        book(inbox, amount, currency)

    inbox.travel(to=noon.replace(hour=23, minute=55))
    inbox.drain()
    assert not reports(inbox), "the day is not over"

    inbox.travel(to=noon + timedelta(hours=12, seconds=1))
    drained = inbox.drain(check=False)

    assert reports(inbox) == [
        (day, "EUR", 2, Decimal("0.30"), Decimal("0.15"), Decimal("0.20")),
        (day, "USD", 1, Decimal(-5), Decimal(5), Decimal(5)),
    ]
    assert inbox.fetchval("SELECT text FROM bank.daily_summaries") == (
        "3 transactions, EUR +0.30, USD -5.00; most of them between 12:00 and 13:00; 1 rejected."
    )
    assert [row.payload["amount"] for row in drained.dead] == ["0.00"]

    # A later transaction of a day that is already reported is added to its report.
    inbox.travel(to=noon)
    book(inbox, "0.50")
    inbox.travel(to=noon + timedelta(hours=12, seconds=1))
    inbox.drain(check=False)
    eur = (day, "EUR", 3, Decimal("0.80"), Decimal("0.27"), Decimal("0.50"))
    assert reports(inbox)[0] == eur
    whole = "SELECT total FROM bank.daily_totals WHERE currency = 'EUR'"
    assert inbox.fetchval(whole) == Decimal("0.80")
    assert inbox.fetchval("SELECT transactions FROM bank.daily_summaries") == 4


def test_two_missed_midnights_give_two_reports(inbox: TestInbox) -> None:
    """No worker runs for two days; the transactions of the third day wait for its midnight."""
    start = datetime(2031, 6, 1, 8, tzinfo=BERLIN)
    for hours in (0, 10, 24, 34, 48):
        inbox.travel(to=start + timedelta(hours=hours))
        book(inbox, "2.50")

    drained = inbox.drain()

    assert reports(inbox) == [
        (date(2031, 6, 1), "EUR", 2, Decimal(5), Decimal("2.50"), Decimal("2.50")),
        (date(2031, 6, 2), "EUR", 2, Decimal(5), Decimal("2.50"), Decimal("2.50")),
    ]
    [waiting] = drained.left
    assert waiting.run_at == datetime(2031, 6, 4, tzinfo=BERLIN)
