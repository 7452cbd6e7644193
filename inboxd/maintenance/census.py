"""Counts each past day once, so that totals and statements are exact at any size.

Days of events and receipts are counted again after a change or a week. Counting rests as long as it
works. Known limit: the first census after an upgrade reads all of history, day by day.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import census, daily_statement
from inboxd.store.census import DayCount, Stretch, UncountedDay
from inboxd.store.daily_statement import EventsOfDay, ReceiptsOfDay
from inboxd.store.pools import borrow, transact
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds of rest for each second of work.
_REST = 1.0
# Time for which a count of the daily statement is valid; number of days that one run counts again.
_VALID_FOR = timedelta(days=7)
_AGAIN = 3


@dataclass(frozen=True, slots=True)
class Census:
    """Counts days. leads: whether this worker still leads, asked before each day."""

    context: MaintenanceContext
    leads: Callable[[], Awaitable[bool]]

    async def take(self) -> None:
        context = self.context
        async with borrow(context.pool) as session:
            await census.forget(session)
            found = await census.uncounted(session)
        for day in reversed([each for each in found if each.over]):
            if not await self.leads():
                return
            await self._count(day)
        async with borrow(context.pool) as session:
            again = await daily_statement.to_count_again(session, _VALID_FOR, _AGAIN)
        for day in again:
            if not await self.leads():
                return
            await self._count(day)

    async def _count(self, day: UncountedDay) -> None:
        pool = self.context.pool
        async with borrow(pool) as session:
            began = await census.begin(session, day.part, day.parent)
            counting = await _counting(session, self.context, day)
        for stretch in census.stretches(day):
            worked = anyio.current_time()
            async with borrow(pool) as session:
                await counting.count(session, stretch)
            await anyio.sleep((anyio.current_time() - worked) * _REST)
        async with transact(pool) as session:
            is_whole = await census.end(session, day, began, counting.rows)
            if is_whole:
                await counting.keep(session)
        _log.debug(
            "counted a day",
            partition=day.part,
            rows=counting.rows.statuses.total(),
            is_whole=is_whole,
        )


@dataclass(slots=True)
class _DayCounting:
    context: MaintenanceContext
    day: UncountedDay
    rows: DayCount
    events: EventsOfDay | None = None
    receipts: ReceiptsOfDay | None = None

    async def count(self, session: Session, where: Stretch) -> None:
        day = self.day
        if self.receipts is not None:
            await daily_statement.count_receipts(session, day, where, self.receipts)
            return
        await census.count(session, day, where, self.rows)
        if self.events is not None:
            await daily_statement.count_events(session, day, where, self.events)

    async def keep(self, session: Session) -> None:
        """Write the counts for the daily statement, in the transaction of the census."""
        day = self.day
        if self.receipts is not None:
            await daily_statement.keep_receipts(session, day, self.receipts)
        elif self.events is not None:
            await daily_statement.keep_events(session, day, self.events)


async def _counting(
    session: Session, context: MaintenanceContext, day: UncountedDay
) -> _DayCounting:
    if day.parent == "receipts":
        receipts = await daily_statement.begin_receipts(session, day)
        return _DayCounting(context, day, DayCount(), receipts=receipts)
    events = EventsOfDay() if day.parent == "events_history" else None
    return _DayCounting(context, day, DayCount(), events=events)
