"""How fast a worker works from a commit on: its rate, its slowest second, its CPU.

Promises to end: after `limit` seconds it returns the rate until then, however many rows are left.
Known limit: it counts calls of handlers, not settlements, which come a page later.
"""

import asyncio
import time
from dataclasses import dataclass, field

import asyncpg

from harness.bench import Bench, Daemon
from harness.cpu import seconds
from harness.figures import Run

_LOOK = 0.02


@dataclass(slots=True)
class Pace:
    """Calls of handlers by the monotonic clock, and the CPU seconds of worker and server."""

    samples: list[tuple[float, int]] = field(default_factory=list)
    worker: float = 0.0
    server: float = 0.0

    @property
    def rows(self) -> int:
        """The number of handled rows."""
        return self.samples[-1][1] - self.samples[0][1]

    @property
    def run(self) -> Run:
        """The rate, and CPU microseconds per row."""
        took = self.samples[-1][0] - self.samples[0][0]
        each = 1e6 / max(1, self.rows)
        return Run(self.rows / took, self.worker * each, self.server * each)

    @property
    def slowest_second(self) -> float:
        """Rows per second in the slowest second; the rate if all took less than a second."""
        ends = iter(self.samples)
        end = next(ends)
        rates = []
        for begin in self.samples:
            while end[0] < begin[0] + 1 and (following := next(ends, None)) is not None:
                end = following
            if end[0] < begin[0] + 1:
                break
            rates.append((end[1] - begin[1]) / (end[0] - begin[0]))
        return min(rates, default=self.run.value)


async def pace(
    bench: Bench, daemon: Daemon, producer: asyncpg.Connection, calls: int, limit: float
) -> Pace:
    """Commit the producer's rows, and measure until handlers were called for `calls` rows in total.

    It takes at most `limit` seconds.
    """
    seen, started = Pace(), time.monotonic()
    server, worker = bench.server_seconds(), seconds(daemon.pid)
    seen.samples.append((started, daemon.marks.calls))
    await producer.execute("commit")
    while seen.samples[-1][1] < calls and time.monotonic() - started < limit:
        await asyncio.sleep(_LOOK)
        seen.samples.append((time.monotonic(), daemon.marks.calls))
    seen.server = bench.server_seconds() - server
    seen.worker = seconds(daemon.pid) - worker
    return seen
