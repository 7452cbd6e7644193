"""Counts the days of history that are over, each once, so that totals are true at any size.

Promises that counting rests as long as it works, and that a day which changes meanwhile is counted
again. Known limit: the first census after an upgrade reads all of history, a day after the other.
*See:* `inboxd.store.census`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import census
from inboxd.store.census import DayCount, UncountedDay
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds of rest for each second of work.
_REST = 1.0


@dataclass(frozen=True, slots=True)
class Census:
    """Counts what is to be counted; leads: whether this worker leads still, before each day."""

    context: MaintenanceContext
    leads: Callable[[], Awaitable[bool]]

    async def take(self) -> None:
        """Count all days that are over and have no census, the newest first."""
        async with borrow(self.context.pool) as connection:
            await census.forget(connection, self.context.sql)
            found = await census.uncounted(connection, self.context.sql)
        for day in reversed([each for each in found if each.over]):
            if not await self.leads():
                return
            await self._count(day)

    async def _count(self, day: UncountedDay) -> None:
        pool, sql = self.context.pool, self.context.sql
        counted = DayCount()
        async with borrow(pool) as connection:
            began = await census.begin(connection, sql, day.part, day.parent)
        for stretch in census.stretches(day):
            worked = anyio.current_time()
            async with borrow(pool) as connection:
                await census.count(connection, sql, day, stretch, counted)
            await anyio.sleep((anyio.current_time() - worked) * _REST)
        async with borrow(pool) as connection:
            is_whole = await census.end(connection, sql, day, began, counted)
        rows = counted.statuses.total()
        _log.debug("counted a day", partition=day.part, rows=rows, is_whole=is_whole)
