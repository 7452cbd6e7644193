"""Purges expired dedup keys: the leader walks their table from its first block to its last.

Its steps are short (their size adapts to their duration) and half of the time is idle, so that
producers are not slowed. A new leader begins at the first block: no position is stored.
"""

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic

from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.dedup import Windows
from inboxd.model.splitting import PageSize
from inboxd.store import dedup
from inboxd.store.pools import borrow

# Maximum seconds of a step, and seconds of work per second.
_STEP_SECONDS = 0.05
_BUSY_SECONDS = 0.5
_FEWEST, _MOST = 16, 4_096  # blocks per step: 128 KB to 32 MB
_WALKS = 24  # walks per window; a walk takes an hour at most
_LONGEST_SECONDS = 3600.0


@dataclass(slots=True)
class WalkPace:
    blocks: int
    period: float
    started: float
    block: int = 0

    def behind(self, now: float) -> bool:
        due = self.blocks * (now - self.started + _BUSY_SECONDS) / self.period
        return self.block < min(due, self.blocks)

    def over(self, now: float) -> bool:
        return self.block >= self.blocks and now - self.started >= self.period


class DedupPurger:
    def __init__(self, context: MaintenanceContext, windows: Windows) -> None:
        """windows: the windows of the settings."""
        self._context = context
        self._settings = windows
        self._windows = windows
        self._walk: WalkPace | None = None
        self._size = PageSize(_FEWEST, _MOST, _FEWEST)

    async def purge(self) -> None:
        """Make the due steps, for half a second at most."""
        end = monotonic() + _BUSY_SECONDS
        async with borrow(self._context.pool) as session:
            if self._walk is None or self._walk.over(monotonic()):
                blocks, self._windows = await dedup.survey(session, self._settings)
                self._walk = WalkPace(blocks, self._period(), monotonic())
            walk = self._walk
            while walk.behind(now := monotonic()) and now < end:
                last = walk.block + self._size.now
                gone = await dedup.forget(session, self._windows, walk.block, last)
                walk.block = last
                self._context.metrics.dedup_forgotten.inc(gone)
                self._adapt(monotonic() - now)

    def _adapt(self, took: float) -> None:
        if took > _STEP_SECONDS:
            self._size.failed(self._size.now)
        elif took < _STEP_SECONDS / 2:
            self._size.went_well()

    def _period(self) -> float:
        windows = self._windows
        shortest: timedelta = min(
            [windows.default, *windows.topics.values(), *windows.sources.values()]
        )
        return min(_LONGEST_SECONDS, max(1.0, shortest.total_seconds() / _WALKS))
