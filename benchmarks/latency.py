"""Time from before the insert to the start of the handler, at 50 rows/s for 20 seconds.

    make bench ONLY=latency

One producer and one worker, idle otherwise. The producer writes the machine's monotonic clock into
the payload before it inserts; the handler reads the same clock first. «until the commit» is the
producer's share: from before the insert until it knows that it committed.
"""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg

from harness.bench import Bench, Daemon, called, main
from harness.figures import Line, Run, Target

EVERY = 0.02
WARM_UP = 20
EVENT = "insert into inboxd.events (type, payload) values ('bench.latency', $1::text::jsonb)"
COMMAND = (
    "insert into inboxd.commands (type, queue, payload) "
    "values ('bench.latency', 'default', $1::text::jsonb)"
)
Send = Callable[[str], Awaitable[object]]


async def send_steadily(count: int, send: Send) -> list[float]:
    """Send `count` rows, evenly spaced; returns the producer's time for each."""
    took, due = [], time.monotonic()
    for _ in range(count):
        due += EVERY
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        sent = time.monotonic()
        await send(json.dumps({"sent": sent}))
        took.append(time.monotonic() - sent)
    return took


async def measure(bench: Bench, insert: str, count: int) -> tuple[list[float], list[float]]:
    """Seconds until the start of the handler, and until the commit, sorted."""
    async with bench.fresh():
        producer = await asyncpg.connect(bench.dsn)
        with bench.daemon() as daemon:
            await daemon.ready()
            took = await send_steadily(WARM_UP + count, lambda body: producer.execute(insert, body))
            started = await _notes(daemon, WARM_UP + count)
        await producer.close()
    return started[WARM_UP:], took[WARM_UP:]


async def _notes(daemon: Daemon, count: int) -> list[float]:
    await called([daemon], count)
    return daemon.marks.notes


def percentile(values: list[float], share: int) -> Run:
    """The percentile in milliseconds, as a run."""
    return Run(1000 * statistics.quantiles(values, n=100, method="inclusive")[share - 1])


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """The median and the 99th percentile of each turn."""
    count = max(2, min(1_000, bench.rows))
    for what, insert in (("event", EVENT), ("command", COMMAND)):
        if not bench.wants(f"latency of one {what}"):
            continue
        turns = [await measure(bench, insert, count) for _ in range(bench.repeat)]
        for share, target in ((50, 2.0), (99, 5.0)):
            yield Line(
                f"latency of one {what}, p{share}",
                [percentile(started, share) for started, _ in turns],
                "until the commit",
                [percentile(took, share) for _, took in turns],
                Target(target, most=True),
                " ms",
            )


if __name__ == "__main__":
    main(figures, __doc__)
