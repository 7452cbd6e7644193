"""The financial report of a day: all its transactions are processed together, at midnight.

Owns one list a branch and day. Promises: a transaction counts to the day on which it was written,
by the clock of Berlin, also on the days on which clocks change; each day is reported once, and a
midnight that was missed when the worker is back; memory stays bounded, however busy the day was.
Known limit: a transaction that waited for its producer's own outbox counts to the day on which it
came here.
"""

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from inboxd import EventContext, EventList, Exponential, Handlers

ZONE = "Europe/Berlin"

handlers = Handlers("ledger")
handlers.topic(
    "daily-report",
    mode="batch",
    key="/branch",
    cron="0 0 * * *",
    zone=ZONE,
    retry=Exponential(base="10s", attempts=20),
)


class TransactionBooked(BaseModel):
    """Money moved. `amount` travels as text, since JSON's numbers are floats."""

    branch: str
    currency: str
    amount: Decimal


# Half a report is no report: if it fails, it is tried again as a whole.
@handlers.events("transaction.booked", topic="daily-report", split=False)
async def report_day(events: EventList[TransactionBooked], ctx: EventContext) -> None:
    """Add up what a branch booked on a day, and write the day's report."""
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    async for event in events:
        booked = event.payload
        if booked.amount == 0:
            events.reject(event, "a transaction of nothing")
            continue
        totals[booked.currency] += booked.amount  # type: ignore[assignment] # it counts any number
        counts[booked.currency] += 1
    # `until` is the midnight at which the day ended.
    day = (events.until.astimezone(ZoneInfo(ZONE)) - timedelta(microseconds=1)).date()
    await ctx.connection.executemany(
        "INSERT INTO bank.daily_reports (branch, day, currency, transactions, total) "
        "VALUES ($1, $2, $3, $4, $5)",
        [(events.key, day, each, counts[each], totals[each]) for each in sorted(totals)],
    )
