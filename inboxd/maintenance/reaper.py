"""The reaper: finds dead workers and takes back their commands.

A worker is dead if its heartbeat number has not changed for a full lease by this reaper's own
monotonic clock, in unbroken contact with the database. So no clocks are compared, and an outage
makes no worker seem dead (promise 3). A death is noticed at least one lease after it happened.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import workers
from inboxd.store.pools import borrow
from inboxd.store.workers import ReturnedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(slots=True)
class HeartbeatWatch:
    lease: float
    _seen: dict[UUID, tuple[int, float]] = field(default_factory=dict)
    _looked_at: float | None = None

    def look(self, living: Sequence[tuple[UUID, int]], now: float) -> list[tuple[UUID, int]]:
        if self._looked_at is not None and now - self._looked_at > self.lease / 2:
            self._seen.clear()  # this process itself was stopped, and observed nothing
        self._looked_at = now
        old, self._seen = self._seen, {}
        still = []
        for worker, heartbeat in living:
            number, since = old.get(worker, (heartbeat, now))
            since = since if number == heartbeat else now
            self._seen[worker] = (heartbeat, since)
            if now - since >= self.lease:
                still.append((worker, heartbeat))
        return still

    def forget(self) -> None:
        """Start all observations again, since the contact was broken."""
        self._seen.clear()
        self._looked_at = None


class Reaper:
    def __init__(
        self,
        context: MaintenanceContext,
        *,
        lease: float,
        crash_limit: int,
        on_returned: Callable[[], Awaitable[None]],
    ) -> None:
        """lease: in seconds; on_returned: notifies workers that rows are claimable again."""
        self._context = context
        self._crash_limit = crash_limit
        self._on_returned = on_returned
        self._watch = HeartbeatWatch(lease)

    async def reap(self) -> None:
        context = self._context
        try:
            async with borrow(context.pool) as session:
                living = await workers.living(session)
        except BaseException:
            self._watch.forget()
            raise
        others = [(row["id"], row["heartbeat"]) for row in living if row["id"] != context.me]
        for worker, heartbeat in self._watch.look(others, monotonic()):
            returned = await workers.declare_dead(
                context.pool, worker, heartbeat, self._crash_limit
            )
            if returned is not None:
                await self._report(worker, returned)

    async def _report(self, worker: UUID, returned: Sequence[ReturnedCommand]) -> None:
        dead_letters = sum(row["status"] == "failed" for row in returned)
        metrics = self._context.metrics
        metrics.reaped.labels("worker").inc()
        metrics.reaped.labels("command").inc(len(returned))
        metrics.crashes.labels("command").inc(len(returned))
        _log.warning(
            "a worker died; its commands are taken back",
            dead_worker=str(worker),
            commands=len(returned),
            dead_letters=dead_letters,
        )
        for row in returned:
            if row["status"] == "failed":
                _log.error("command is a dead letter", id=row["id"], type=row["type"])
        await self._on_returned()
