"""How fast a worker goes from a commit on: the rate, its slowest second, the CPU that it takes.

Promises to end: after `limit` seconds the rate so far is the answer, however many rows are left.
Known limit: handlers' calls are counted, not settlements, which come a page later.
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
        """How many were handled."""
        return self.samples[-1][1] - self.samples[0][1]

    @property
    def run(self) -> Run:
        """The rate, and CPU microseconds a row."""
        took = self.samples[-1][0] - self.samples[0][0]
        each = 1e6 / max(1, self.rows)
        return Run(self.rows / took, self.worker * each, self.server * each)

    @property
    def slowest_second(self) -> float:
        """Rows a second where it went slowest; of what took less than a second, the rate."""
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
    """Commit what the producer inserted, and watch until handlers were called so many times in all.

    At most `limit` seconds long.
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
