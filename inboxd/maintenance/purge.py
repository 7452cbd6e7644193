"""Removes old rows in small steps, so that no table grows forever.

A thousand rows a statement, then a rest of the same length. A batch stays as long as it has a dead
letter, rows wait for it, or its parent exists. A run ends after some seconds.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.settings import History
from inboxd.store import breakers, daily_statement, purging, workers
from inboxd.store.pools import borrow, transact
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1000
# This many newest samples are all kept: a day's, at one per ten seconds. Of older ones, one per
# minute is kept.
_SAMPLES = 8_640
# After this time without a start, a key's rate no longer delays it.
_KEY_RATES = timedelta(days=1)
# Time limit of a run for each table, in seconds.
_LONGEST_SECONDS = 10.0


class Purger:
    def __init__(self, context: MaintenanceContext, history: History, samples: timedelta) -> None:
        """history: how long each table is kept; samples: the interval of samples."""
        self._context = context
        self._history = history
        self._all_samples = _SAMPLES * samples
        self._looked_to: int | None = 0
        self._series_to = 0
        self._thinned_to = datetime.fromtimestamp(0, UTC)

    async def purge(self) -> None:
        history = self._history
        async with borrow(self._context.pool) as session:
            await workers.forget_ended(session)
            await breakers.forget(session)
            await purging.forget_tenants(session)
        is_done = await self._remove("stats_minutes", history.stats)
        for of in ("stats", "stats_tenant"):
            is_done &= await self._remove(f"{of}_hours", history.stats_hours)
            is_done &= await self._remove(f"{of}_days", history.stats_days)
        # Without a limit for days all names stay. Rows of a removed tenant keep its name, too.
        if history.stats_days is not None and is_done:
            await self._go_on("stats_series", self._series)
        if history.stats_days is not None:
            await self._go_on("statement_days", self._statements(history.stats_days))
        await self._remove("samples", history.samples)
        await self._remove("sampled_lanes", history.samples)
        await self._go_on("samples", self._thin_samples)
        await self._go_on("sent_webhooks", self._sent_webhooks)
        await self._remove("key_rates", _KEY_RATES)
        await self._remove("audit", history.audit)
        await self._remove("actions", history.audit)
        if history.events is not None and history.commands is not None:
            await self._remove("replays", max(history.events, history.commands))
        if history.commands is not None:
            await self._go_on("batches", self._batches(history.commands))

    async def _remove(self, table: str, age: timedelta | None) -> bool:
        """Remove page by page until a page is not full; returns whether that was reached."""
        if age is None:
            return True

        async def page() -> tuple[int, bool]:
            async with borrow(self._context.pool) as session:
                removed = await purging.remove(session, table, age, _PAGE)
            return removed, removed == _PAGE

        return await self._go_on(table, page)

    async def _series(self) -> tuple[int, bool]:
        async with transact(self._context.pool) as session:
            last, removed = await purging.forget_series(session, self._series_to, _PAGE)
        self._series_to = last or 0
        return removed, last is not None

    async def _sent_webhooks(self) -> tuple[int, bool]:
        async with borrow(self._context.pool) as session:
            looked, removed = await purging.sent_webhooks(session, _PAGE)
        return removed, looked == _PAGE

    async def _thin_samples(self) -> tuple[int, bool]:
        async with borrow(self._context.pool) as session:
            last, removed = await purging.thin_samples(
                session, self._all_samples, self._thinned_to, _PAGE
            )
        self._thinned_to = last or self._thinned_to
        return removed, last is not None

    def _statements(self, age: timedelta) -> Callable[[], Awaitable[tuple[int, bool]]]:
        async def day() -> tuple[int, bool]:
            async with borrow(self._context.pool) as session:
                removed = await daily_statement.purge(session, age)
            return removed, removed > 0

        return day

    def _batches(self, age: timedelta) -> Callable[[], Awaitable[tuple[int, bool]]]:
        async def page() -> tuple[int, bool]:
            async with borrow(self._context.pool) as session:
                self._looked_to, removed = await purging.batches(
                    session, age, self._looked_to or 0, _PAGE
                )
            return removed, self._looked_to is not None

        return page

    async def _go_on(self, table: str, page: Callable[[], Awaitable[tuple[int, bool]]]) -> bool:
        """Repeat until no rows are left or the time is over; returns whether no rows are left."""
        more, total, until = True, 0, anyio.current_time() + _LONGEST_SECONDS
        while more and anyio.current_time() < until:
            began = anyio.current_time()
            removed, more = await page()
            total += removed
            await anyio.sleep(anyio.current_time() - began)
        if total:
            self._context.metrics.purged.labels(table).inc(total)
            _log.info("removed old rows", table=table, rows=total)
        return not more
