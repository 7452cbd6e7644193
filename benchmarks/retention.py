"""The cost of dropping a day of history while events flow, and the size of a row of history.

    make bench ONLY=retention ROWS=5000000

Two partitions of `--rows` rows each (payloads of 200 bytes) are filled on the server. Then sixteen
sessions of pgbench insert 5,000 single rows per second, each in a transaction of its own, and a
worker drains them: without a drop; while the owner's login detaches one partition concurrently and
drops it; while the worker's role drops the other; and without a drop again. The time of an insert
starts when it is sent. The table shows the slowest insert during the drop and some seconds after
it, in which the file system frees the space, and the slowest one of the rest of the same stretch,
which is as long: a busy machine or disk makes inserts slow by itself.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg

from harness.bench import Bench, main
from inboxd.embedded.datadir import wheel
from inboxd.maintenance.partitions.retention import Retention
from inboxd.settings import Settings
from inboxd.telemetry import logs
from inboxd.telemetry.metrics import Metrics

SESSIONS, RATE = 16, 5_000
# Seconds of a stretch before the drop begins, and seconds after its end that still count as during
# the drop; with few rows both are shorter, since such a run only tests the script.
BEFORE, AFTERMATH = 4.0, 6.0
FEW = 10_000
EMIT = "insert into inboxd.events (type, payload) values ('bench.noop', '{}');".format(
    json.dumps({"n": 1, "pad": 170 * "x"})
)
PAYLOAD = "jsonb_build_object('n', n, 'pad', repeat('x', 170))"
EVENTS = (
    "(id, event_id, topic, mode, type, schema_version, source,"
    " payload, correlation_id, status, attempts, crashes, run_at, occurred_at, created_at,"
    " updated_at, finished_at, duration, worker_id) select n, inboxd.new_uuid(), 'default',"
    f" 'single', 'bench.noop', 1, 'shop', {PAYLOAD}, gen_random_uuid()::text, 'succeeded', 1, 0,"
    " at, at, at, at, at, interval '1 ms', '00000000-0000-0000-0000-000000000001'"
)
COMMANDS = (
    "(id, command_id, queue, type, schema_version, payload,"
    " priority, status, attempts, crashes, fence, run_at, worker_id, started_at, cancel_requested,"
    " origin_kind, origin_id, correlation_id, causation_id, created_at, updated_at, finished_at,"
    " duration, awaited) select n, inboxd.new_uuid(), 'default', 'bench.noop', 1,"
    f" {PAYLOAD}, 0, 'succeeded', 1, 0, 1, at, '00000000-0000-0000-0000-000000000001', at, false,"
    " 'event', n, gen_random_uuid()::text, gen_random_uuid(), at, at, at, interval '1 ms', false"
)


async def fill(bench: Bench, parent: str, days: int, rows: int) -> float:
    """Fill the partition of a past day; returns bytes per row, with indexes."""
    low = datetime.now(UTC).date() - timedelta(days=days)
    part = f"inboxd.{parent}_{low:%Y%m%d}"
    attach = (
        f"alter table inboxd.{parent} attach partition {part}"
        f" for values from ('{low} 00:00+00') to ('{low + timedelta(days=1)} 00:00+00')"
    )
    insert = (
        f"insert into {part} {EVENTS if parent == 'events_history' else COMMANDS}"
        f" from (select n, timestamptz '{low} 00:00+00' + n * interval '1 day' / {rows + 1} as at"
        f" from generate_series(1, {rows}) n) t"
    )
    connection = await bench.connect()
    await connection.execute(
        f"create table {part} (like inboxd.{parent} including all excluding indexes)"
    )
    # Attaching creates the indexes. For events it comes last, which is faster: their keys grow with
    # time. Commands have an index of random keys, which becomes larger when it grows row by row.
    for step in (insert, attach) if parent == "events_history" else (attach, insert):
        await connection.execute(step, timeout=900)
    await connection.execute(f"vacuum analyze {part}", timeout=900)
    weight = await connection.fetchval("select pg_total_relation_size($1)", part)
    await connection.close()
    return float(weight) / rows


@dataclass(frozen=True, slots=True)
class Insert:
    """One insert: the time of its answer (as in `time.time`), and its milliseconds."""

    ended: float
    took: float


@asynccontextmanager
async def flowing(bench: Bench, folder: Path) -> AsyncIterator[None]:
    """Insert rows during the block; afterwards their times are in files in the folder."""
    script = folder / "insert.sql"
    script.write_text(EMIT)
    process = await asyncio.create_subprocess_exec(
        wheel() / "pginstall" / "bin" / "pgbench",
        *("--no-vacuum", "--protocol=prepared", f"--file={script}", "--time=3600"),
        *(
            f"--client={SESSIONS}",
            "--jobs=2",
            f"--rate={RATE}",
            "--log",
            f"--log-prefix={folder}/times",
        ),
        bench.dsn,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


def inserts(folder: Path) -> Iterator[Insert]:
    """The times that pgbench wrote; the last line of a file may be incomplete."""
    for path in folder.glob("times.*"):
        for line in path.read_text().splitlines()[:-1]:
            _, _, took, _, seconds, micros, late = map(int, line.split())
            yield Insert(seconds + micros / 1e6, (took - late) / 1e3)


async def stretch(bench: Bench, what: str, work: Callable[[], Awaitable[object]]) -> str:
    """One line: the slowest inserts during `work`, and for as long without it."""
    folder = bench.folder / what.replace(" ", "-")
    folder.mkdir()
    share = min(1.0, bench.rows / FEW)
    async with flowing(bench, folder):
        await asyncio.sleep(1)  # until the sessions are open
        began = time.time()
        await asyncio.sleep(BEFORE * share)
        first = time.time()
        await work()
        worked = time.time() - first
        await asyncio.sleep(AFTERMATH * share)
        last = time.time()
        await asyncio.sleep(max(share, last - first - (first - began)))
        ended = time.time()
        await asyncio.sleep(0.2)  # until pgbench has written all times up to here
    seen = [each for each in inserts(folder) if began <= each.ended <= ended]
    during = sorted(each.took for each in seen if first <= each.ended <= last)
    beside = sorted(each.took for each in seen if not first <= each.ended <= last)
    cells = (
        what,
        f"{worked:.1f} s",
        f"{len(seen) / (ended - began):,.0f}/s",
        *(f"{times[int(0.99 * len(times))]:.0f} ms" for times in (during, beside)),
        *(f"{times[-1]:.0f} ms" for times in (during, beside)),
    )
    return f"| {' | '.join(cells)} |"


async def _leads() -> bool:
    return True


async def drop_old(dsn: str, days: int) -> None:
    """One run of the task, like a worker's."""
    settings = Settings(database={"dsn": dsn}, history={"events": f"{days}d"})  # type: ignore[arg-type]
    await Retention(settings, Metrics("0"), _leads).let_go()


@asynccontextmanager
async def unprivileged(bench: Bench, connection: asyncpg.Connection) -> AsyncIterator[str]:
    """The DSN of a login that has the worker's role, and owns nothing."""
    with suppress(asyncpg.DuplicateObjectError):
        await connection.execute(
            "create role bench_worker login; grant inboxd_worker to bench_worker"
        )
    place = bench.dsn.rpartition("@")[2]
    yield f"postgresql://bench_worker@{place}"


async def figures(bench: Bench) -> AsyncIterator[str]:
    """The lines of the stretches, then the sizes of rows."""
    async with bench.fresh() as connection:
        event, _, command = await asyncio.gather(
            fill(bench, "events_history", 100, bench.rows),
            fill(bench, "events_history", 60, bench.rows),
            fill(bench, "commands_history", 60, max(1000, bench.rows // 10)),
        )
        await connection.execute("checkpoint")
        with bench.daemon() as daemon:
            await daemon.ready()

            async def nothing() -> None:
                await asyncio.sleep(0)

            log = await connection.fetchval("select pg_current_wal_lsn()")
            yield await stretch(bench, "no drop", nothing)
            await asyncio.sleep(1)
            settled = await connection.fetchval(
                "select count(*) from inboxd.events_history"
                " where finished_at > now() - interval '1 h'"
            )
            wal = await connection.fetchval("select pg_current_wal_lsn() - $1::pg_lsn", log)
            yield await stretch(bench, "the owner drops one", lambda: drop_old(bench.dsn, 80))
            async with unprivileged(bench, connection) as dsn:
                yield await stretch(bench, "the worker's role drops one", lambda: drop_old(dsn, 30))
            left = await connection.fetchval(
                "select count(*) from inboxd.retired where dropped_at is not null"
            )
            yield await stretch(bench, "no drop, again", nothing)
    yield f"\n{left} partitions of {bench.rows:,} rows were dropped."
    yield f"A settled event has {event:.0f} bytes, a settled command {command:.0f}."
    yield f"An event writes {float(wal) / max(1, settled):,.0f} bytes of WAL, to its history."


if __name__ == "__main__":
    logs.configure("warning")
    main(
        figures,
        __doc__,
        header=(
            "| stretch | the drop took | inserts | p99 during the drop | p99 of the rest "
            "| slowest during the drop | slowest of the rest |\n|---|---|---|---|---|---|---|"
        ),
    )
