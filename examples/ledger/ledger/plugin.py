"""The financial report of a day: all its transactions are processed together, at midnight.

Owns one chunk for each branch and day. Promises: a transaction counts for the day on which it was
written, by the clock of Berlin, also on the days when clocks change; each day is reported once,
with totals, averages and a summary; after a missed midnight the report follows as soon as a worker
runs; memory stays bounded, however many transactions the day has.
Known limit: a transaction that waited in its producer's outbox counts for the day on which it
arrived here.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from inboxd import EventChunk, EventContext, Exponential, Handlers

ZONE = ZoneInfo("Europe/Berlin")

# A day that already has its report gets another chunk after a manual flush or a replay: add it.
_REPORT = """
    INSERT INTO bank.daily_reports AS r
           (branch, day, currency, transactions, received, paid, largest)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (branch, day, currency) DO UPDATE
       SET transactions = r.transactions + excluded.transactions,
           received = r.received + excluded.received,
           paid = r.paid + excluded.paid,
           largest = greatest(r.largest, excluded.largest)
"""
_SUMMARY = """
    INSERT INTO bank.daily_summaries AS s
           (branch, day, transactions, rejected, busiest_hour, text)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (branch, day) DO UPDATE
       SET transactions = s.transactions + excluded.transactions,
           rejected = s.rejected + excluded.rejected,
           busiest_hour = coalesce(s.busiest_hour, excluded.busiest_hour),
           text = s.text || ' Later: ' || excluded.text
"""

handlers = Handlers("ledger")
handlers.topic(
    "daily-report",
    mode="batch",
    key="/branch",
    cron="0 0 * * *",
    zone=ZONE.key,
    retry=Exponential(base="10s", attempts=20),
)


class TransactionBooked(BaseModel):
    """Money moved. `amount` is text in JSON, because JSON's numbers are floats."""

    branch: str
    currency: str
    amount: Decimal


@dataclass(slots=True)
class Figures:
    """The totals of a day's transactions in one currency."""

    transactions: int = 0
    received: Decimal = Decimal(0)
    paid: Decimal = Decimal(0)
    largest: Decimal = Decimal(0)

    def add(self, amount: Decimal) -> None:
        self.transactions += 1
        self.received += max(amount, Decimal(0))
        self.paid -= min(amount, Decimal(0))
        self.largest = max(self.largest, abs(amount))


# split=False: a report is written as a whole, so a failed chunk is tried again as a whole.
@handlers.chunk("transaction.booked", topic="daily-report", split=False)
async def report_day(events: EventChunk[TransactionBooked], ctx: EventContext) -> None:
    """Add up a branch's transactions of a day; write its report and its summary."""
    currencies: dict[str, Figures] = {}
    hours: Counter[int] = Counter()
    rejected = 0
    async for event in events:
        booked = event.payload
        if booked.amount == 0:
            events.reject(event, "the amount is zero")
            rejected += 1
            continue
        currencies.setdefault(booked.currency, Figures()).add(booked.amount)
        hours[event.created_at.astimezone(ZONE).hour] += 1
    # `until` is the midnight at which the day ended.
    day = (events.until.astimezone(ZONE) - timedelta(microseconds=1)).date()
    await ctx.connection.executemany(
        _REPORT,
        [
            (events.key, day, currency, of.transactions, of.received, of.paid, of.largest)
            for currency, of in sorted(currencies.items())
        ],
    )
    text = summarise(currencies, hours, rejected)
    await ctx.connection.execute(
        _SUMMARY, events.key, day, hours.total(), rejected, _busiest(hours), text
    )


def summarise(currencies: dict[str, Figures], hours: Counter[int], rejected: int) -> str:
    """The day in one sentence, for people."""
    busiest = _busiest(hours)
    if busiest is None:
        return f"No transactions; {rejected} rejected."
    totals = ", ".join(
        f"{name} {of.received - of.paid:+,.2f}" for name, of in sorted(currencies.items())
    )
    return (
        f"{hours.total():,} transactions, {totals}; most of them between "
        f"{busiest}:00 and {busiest + 1}:00; {rejected} rejected."
    )


def _busiest(hours: Counter[int]) -> int | None:
    """The hour with the most transactions; among equals, the first."""
    return min(hours, key=lambda hour: (-hours[hour], hour), default=None)
