"""Takes samples, in the leader; shows the newest one in the metrics, in every worker.

Owns how far is counted. Promises that a sample which cannot be counted in time costs no other task
anything, and that the next is counted less far; that what metrics show is never counted for them:
each worker reads one row. Whatever becomes of the leader, metrics go on showing the last sample,
and its age.
*See:* `store/samples.py`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from time import monotonic

from inboxd.maintenance.context import MaintenanceContext
from inboxd.settings import Database, Queue
from inboxd.store import samples
from inboxd.store.pools import borrow, transact
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# What each statement gets, at most.
_LONGEST = timedelta(seconds=10)
# Seconds: what takes longer is counted less far from then on, until nothing is cut off by that, or
# it takes less than the other: counted ten times as far, that would not be slow.
_SLOW = 0.5
_QUICK = 0.02


class Sampler:
    """Takes samples of one inbox, as long as this worker leads."""

    def __init__(
        self,
        context: MaintenanceContext,
        database: Database,
        interval: timedelta,
        queues: Callable[[], Mapping[str, Queue]],
    ) -> None:
        """interval: the time between two; queues: their settings as they are by now."""
        self._context = context
        self._limit = min(_LONGEST, database.statement_timeout)
        self._newer_by = interval / 2
        self._queues = queues
        self._to = samples.FAR

    async def sample(self) -> None:
        """Count, and write what was counted, in one transaction."""
        began, took, cut_off = monotonic(), _SLOW, True
        try:
            async with transact(self._context.pool) as connection:
                taken = await samples.count(
                    connection, self._context.sql, self._queues(), self._to, self._limit
                )
                await samples.write(connection, self._context.sql, taken, self._newer_by)
            took, cut_off = monotonic() - began, samples.is_cut_off(taken.counts)
        finally:
            self._adapt(took, cut_off=cut_off)

    def _adapt(self, took: float, *, cut_off: bool) -> None:
        if took >= _SLOW and self._to is samples.FAR:
            self._to = samples.NEAR
            _log.info("samples are counted less far", to=samples.NEAR.waiting, took=round(took, 2))
        elif self._to is samples.NEAR and (took <= _QUICK or not cut_off):
            self._to = samples.FAR


class SampleReader:
    """Shows the newest sample in the metrics of this worker."""

    def __init__(self, context: MaintenanceContext) -> None:
        """Show it where `context` says."""
        self._context = context
        self._shown: datetime | None = None

    async def show(self) -> None:
        """Show the newest, if it is another one than is shown."""
        context = self._context
        async with borrow(context.pool) as connection:
            sample = await samples.newest(connection, context.sql, self._shown)
        if sample is None:
            return
        counts, metrics = sample.counts, context.metrics
        totals = counts["totals"]
        metrics.samples.show(
            sample.age, {"event": totals["events_written"], "command": totals["commands_written"]}
        )
        metrics.show_backlog(
            list(samples.event_backlog(counts)), list(samples.command_backlog(counts))
        )
        metrics.show_blocked(counts["blocked_keys"])
        metrics.show_blocked_lines(counts["blocked_lines"])
        metrics.held_topics.set(counts["held_topics"])
        metrics.show_schedules(
            {name: datetime.fromisoformat(at) for name, at in counts["schedules"].items()}
        )
        metrics.webhooks.show_held(
            (each["source"], each["receipts"], datetime.fromisoformat(each["held_at"]))
            for each in counts["held_receipts"]
        )
        self._shown = sample.at
