"""Takes samples on the leader; shows the newest sample in the metrics of every worker.

After a sample that took too long, the next ones count fewer rows; if time permits, still as many as
the notice of a backlog needs. Metrics never cause a count: each worker reads one row.
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

# Time limit of each statement.
_LONGEST = timedelta(seconds=10)
# Seconds. After a slow sample the next ones have lower bounds, until no count reaches its bound, or
# a sample is quick: then ten times the bound would not be slow.
_SLOW = 0.5
_QUICK = 0.02


class Sampler:
    def __init__(
        self,
        context: MaintenanceContext,
        database: Database,
        interval: timedelta,
        queues: Callable[[], Mapping[str, Queue]],
        asked: int | None = None,
    ) -> None:
        """asked: the number of waiting rows for which a notice is set. interval: of samples."""
        self._context = context
        self._limit = min(_LONGEST, database.statement_timeout)
        self._newer_by = interval / 2
        self._queues = queues
        near = samples.NEAR
        between = [near._replace(waiting=asked)] if asked and asked > near.waiting else []
        # Bounds of a count, the highest first; index of the current bound.
        self._steps, self._step = (samples.FAR, *between, near), 0

    async def sample(self) -> None:
        """Count, and write the sample, in one transaction."""
        began, took, cut_off, counted = monotonic(), _SLOW, True, False
        try:
            async with transact(self._context.pool) as session:
                to = self._steps[self._step]
                taken = await samples.count(session, self._queues(), to, self._limit)
                await samples.write(session, taken, self._newer_by)
            took, cut_off = monotonic() - began, samples.is_cut_off(taken.counts)
            counted = True
        finally:
            self._adapt(took, cut_off=cut_off, counted=counted)

    def _adapt(self, took: float, *, cut_off: bool, counted: bool) -> None:
        step, nearest = self._step, len(self._steps) - 1
        if step < nearest and (not counted or (step == 0 and took >= _SLOW)):
            self._step += 1
            to = self._steps[self._step].waiting
            _log.info(
                "counting was slow: samples now stop at a lower number", to=to, took=round(took, 2)
            )
        elif step and (took <= _QUICK or not cut_off):
            self._step = 0
        elif step > 1 and counted and took * self._further() < self._limit.total_seconds():
            self._step = 1

    def _further(self) -> float:
        """Factor between the bound for the notice and the lowest bound."""
        return self._steps[1].waiting / self._steps[-1].waiting


class SampleReader:
    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._shown: datetime | None = None

    async def show(self) -> None:
        context = self._context
        async with borrow(context.pool) as session:
            sample = await samples.newest(session, self._shown)
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
