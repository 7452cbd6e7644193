"""What a snapshot held open costs: a backup, a forgotten transaction, a slow report.

    make bench ONLY=snapshot

A feeder keeps 10,000 events waiting. Measured over three windows of half of --rows each: before the
snapshot, and when ten times --rows have been handled while it was held; then after its release.
Machines drift meanwhile: CPU microseconds a row say what the claims really cost.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import asyncpg

from harness.backlog import PAD, payload
from harness.bench import Bench, Daemon, called, main
from harness.cpu import seconds
from harness.figures import Line, Run, Target

WAITING = 10_000


async def feed(bench: Bench, daemon: Daemon) -> None:
    """Keep rows waiting, a thousand at a time."""
    connection = await asyncpg.connect(bench.dsn)
    fed = 0
    insert = await connection.prepare(
        f"insert into inboxd.events (type, payload) select 'bench.noop', {payload(200)} "
        f"from {PAD} as t(pad), generate_series(1, 1000) n"
    )
    try:
        while True:
            while fed - daemon.marks.calls < WAITING:
                await insert.fetch()
                fed += 1_000
            await asyncio.sleep(0.002)
    finally:
        await connection.close()


async def window(bench: Bench, daemon: Daemon, rows: int) -> Run:
    """How fast the next rows are handled."""
    worker, server = seconds(daemon.pid), bench.server_seconds()
    calls, started = daemon.marks.calls, time.monotonic()
    await called([daemon], calls + rows)
    done = daemon.marks.calls - calls
    each, took = 1e6 / done, time.monotonic() - started
    worker, server = seconds(daemon.pid) - worker, bench.server_seconds() - server
    return Run(done / took, worker * each, server * each)


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Before, while it is held, and after."""
    rows, last = bench.rows, 10 * bench.rows
    async with bench.fresh() as connection:
        with bench.daemon() as daemon:
            await daemon.ready()
            feeder = asyncio.create_task(feed(bench, daemon))
            await called([daemon], rows)
            before = await _windows(bench, daemon)
            await connection.execute("begin isolation level repeatable read; select 1 from ledger")
            await called([daemon], daemon.marks.calls + last)
            held = await _windows(bench, daemon)
            await connection.execute("commit")
            await called([daemon], daemon.marks.calls + rows)
            after = await _windows(bench, daemon)
            feeder.cancel()
            with suppress(asyncio.CancelledError):
                await feeder
    yield Line("events before the snapshot", before)
    what = f"events under a snapshot, {last:,} later"
    yield Line(what, held, "before", before, Target(share=0.8))
    yield Line("events after its release", after, "before", before)


async def _windows(bench: Bench, daemon: Daemon) -> list[Run]:
    return [await window(bench, daemon, max(1, bench.rows // 2)) for _ in range(3)]


if __name__ == "__main__":
    main(figures, __doc__)
