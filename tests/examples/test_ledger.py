"""The report of a day: the handler by itself, then a worker that missed two midnights."""

import json
from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from inboxd import Connection
from inboxd.store.plugin_migrations import migrate
from inboxd.testing import Dead, Succeeded, run_chunk
from ledger.plugin import handlers
from tests.support import Database, StartWorker
from tests.support.rows import settings_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio
BERLIN = ZoneInfo("Europe/Berlin")
BOOKED = "transaction.booked"


@pytest.fixture
async def bank(database: Database) -> AsyncIterator[Connection]:
    """A bank without reports."""
    await migrate(settings_of(database), ["ledger"])
    async with database.connect() as connection:
        yield connection


def booked(amount: str, currency: str = "EUR") -> dict[str, Any]:
    return {"branch": "Mitte", "currency": currency, "amount": amount}


async def reports(bank: Connection) -> list[tuple[Any, ...]]:
    rows = await bank.fetch(
        "SELECT day, currency, transactions, total, average, largest"
        " FROM bank.daily_reports ORDER BY 1, 2"
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(
    "day", [date(2026, 3, 29), date(2026, 10, 25), date(2026, 6, 1)], ids=["23h", "25h", "24h"]
)
async def test_a_day_is_reported_with_its_date(bank: Connection, day: date) -> None:
    written = {"created_at": datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN)}
    result = await run_chunk(
        handlers,
        "daily-report",
        [
            (BOOKED, booked("0.10"), written),
            (BOOKED, booked("0.20"), written),
            (BOOKED, booked("-5", "USD"), written),
            (BOOKED, booked("0.00"), written),
        ],
        key="Mitte",
        now=datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN) + timedelta(days=3),
        connection=bank,
    )
    assert isinstance(result.outcome, Succeeded)
    assert [type(item) for item in result.items] == [Succeeded, Succeeded, Succeeded, Dead]
    assert await reports(bank) == [
        (day, "EUR", 2, Decimal("0.30"), Decimal("0.15"), Decimal("0.20")),
        (day, "USD", 1, Decimal(-5), Decimal(5), Decimal(5)),
    ]
    summary = await bank.fetchval("SELECT text FROM bank.daily_summaries")
    assert summary == (
        "3 transactions, EUR +0.30, USD -5.00; most of them between 12:00 and 13:00; 1 rejected."
    )
    # What is replayed, or was flushed before, is added to the day's report.
    again = await run_chunk(
        handlers,
        "daily-report",
        [(BOOKED, booked("0.50"), written)],
        key="Mitte",
        now=datetime(day.year, day.month, day.day, 12, tzinfo=BERLIN) + timedelta(days=3),
        connection=bank,
    )
    assert isinstance(again.outcome, Succeeded), again.error
    eur = (day, "EUR", 3, Decimal("0.80"), Decimal("0.27"), Decimal("0.50"))
    assert (await reports(bank))[0] == eur
    whole = await bank.fetchrow(
        "SELECT branches, total FROM bank.daily_totals WHERE currency = 'EUR'"
    )
    assert whole is not None
    assert tuple(whole.values()) == (1, Decimal("0.80"))
    counted = await bank.fetchrow("SELECT transactions, rejected FROM bank.daily_summaries")
    assert counted is not None
    assert tuple(counted.values()) == (4, 1)


async def test_two_missed_midnights_give_two_reports(
    bank: Connection, start_worker: StartWorker
) -> None:
    """The worker comes back when two days have ended; today's transactions wait for midnight."""
    today = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    times = [today - timedelta(hours=hours) for hours in (40, 30, 12, 1)]
    await bank.execute(
        """
        INSERT INTO inboxd.events
               (topic, mode, type, ordering_key, bucket, status, payload, created_at)
        SELECT 'daily-report', 'batch', 'transaction.booked', 'Mitte',
               inboxd.bucket_of('daily-report', 'Mitte'), 'waiting', $1::text::jsonb, at
          FROM unnest($2::timestamptz[]) AS at
        """,
        json.dumps(booked("2.50")),
        times,
    )
    await start_worker({"worker": {"plugins": ["ledger"]}})

    async def are_there() -> bool:
        return len(await reports(bank)) == 2

    await eventually(are_there)
    await bank.execute(
        "INSERT INTO inboxd.events (type, payload) VALUES ($1, $2::text::jsonb)",
        BOOKED,
        json.dumps(booked("1")),
    )
    due = await eventually(
        lambda: bank.fetchval("SELECT run_at FROM inboxd.events WHERE position IS NOT NULL")
    )
    assert due == (today + timedelta(days=1, hours=12)).replace(hour=0)
    yesterday = today.date() - timedelta(days=1)
    assert await reports(bank) == [
        (yesterday - timedelta(days=1), "EUR", 2, Decimal(5), Decimal("2.50"), Decimal("2.50")),
        (yesterday, "EUR", 2, Decimal(5), Decimal("2.50"), Decimal("2.50")),
    ]
