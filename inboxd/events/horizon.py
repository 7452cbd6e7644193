"""The horizon of arrivals, read when it is worth it: one for all topics of a worker.

Owns how often the server is asked who may still commit: a look copies its whole lock table.
Promises that rows which can be seen wait no longer for a look than is set here, and that looks take
no more than a small share of the time. Known limit: with hundreds of thousands of locks held, a
look takes tens of milliseconds, and the pauses between them are twenty times as long.
*See:* `sources/sequential.py` and `chunks/processing.py`, which ask for it.
"""

import time

from inboxd.model.horizon import Horizon
from inboxd.store import lines
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import Metrics

# Seconds between two readings: while rows wait for one, and while enough others may be taken.
_HURRIED, _LEISURELY = 0.005, 0.1
_SHARE = 20


class HorizonReader:
    """`horizon`: what its readings say.

    rewinds: how often a reading found that ids were rewound, or the server is another one. Whoever
    keeps cursors forgets them at another number than before, whoever it was that read.
    """

    def __init__(self, sql: Statements, metrics: Metrics) -> None:
        self.horizon = Horizon()
        self.rewinds = 0
        self._sql = sql
        self._metrics = metrics
        self._read_at = 0.0
        self._took = 0.0
        self._reading = False

    def is_due(self, *, hurried: bool) -> bool:
        """Whether it is time for another reading."""
        least = max(_HURRIED if hurried else _LEISURELY, _SHARE * self._took)
        return time.monotonic() - self._read_at >= least

    async def read(self, connection: Connection) -> None:
        """Read; while another reading is under way, nothing is read: they have an order."""
        if self._reading:
            return
        self._reading = True
        try:
            await self._read(connection)
        finally:
            self._reading = False

    async def read_if_due(self, connection: Connection) -> None:
        """As `read`, while rows wait for it, if it is time for one."""
        if self.is_due(hurried=True):
            await self.read(connection)

    async def _read(self, connection: Connection) -> None:
        started = time.monotonic()
        reading = await lines.read_horizon(connection, self._sql)
        self._read_at = time.monotonic()
        self._took = self._read_at - started
        self._metrics.horizon_duration.observe(self._took)
        if not self.horizon.take(reading):
            self.rewinds += 1

    def forget(self) -> None:
        """The connection was lost."""
        self.horizon.forget()
        self._read_at = self._took = 0.0
