"""Reads the horizon of arrivals: one horizon for all topics of a worker.

Readings take a small share of the time. Known limit: with hundreds of thousands of locks held, each
takes tens of milliseconds, and pauses are twenty times as long. *See:* `sources/sequential.py`.
"""

import time

from inboxd.model.horizon import Horizon
from inboxd.store import lines
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics

# Shortest interval between readings: while rows wait for one, and while other rows can be claimed.
_HURRIED_SECONDS, _LEISURELY_SECONDS = 0.005, 0.1
_SHARE = 20  # the pause after a reading, in durations of that reading


class HorizonReader:
    """rewinds: number of readings that found rewound ids or another server.

    Each owner of cursors forgets them when this number has changed.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.horizon = Horizon()
        self.rewinds = 0
        self._metrics = metrics
        self._read_at = 0.0
        self._took = 0.0
        self._reading = False

    def is_due(self, *, hurried: bool) -> bool:
        least = max(_HURRIED_SECONDS if hurried else _LEISURELY_SECONDS, _SHARE * self._took)
        return time.monotonic() - self._read_at >= least

    async def read(self, session: Session) -> None:
        """Read the horizon, unless another reading is under way: readings must keep their order."""
        if self._reading:
            return
        self._reading = True
        try:
            await self._read(session)
        finally:
            self._reading = False

    async def read_if_due(self, session: Session) -> None:
        """Read the horizon for waiting rows, if the last reading is old enough."""
        if self.is_due(hurried=True):
            await self.read(session)

    async def _read(self, session: Session) -> None:
        started = time.monotonic()
        reading = await lines.read_horizon(session)
        self._read_at = time.monotonic()
        self._took = self._read_at - started
        self._metrics.horizon_duration.observe(self._took)
        if not self.horizon.take(reading):
            self.rewinds += 1

    def forget(self) -> None:
        self.horizon.forget()
        self._read_at = self._took = 0.0
