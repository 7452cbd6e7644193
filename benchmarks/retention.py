"""What it costs to let a day of history go while events flow, and what a row of history weighs.

    make bench ONLY=retention ROWS=5000000

Two partitions of `--rows` rows each (payloads of 200 bytes), filled on the server; then 5,000
events/s from four producers, 25 to an insert, and a worker that drains them: without a drop, while
the owner's login detaches one partition concurrently and drops it, while the worker's role lets the
other go, and without again. What is shown is the slowest insert of each stretch, and, since a busy
machine makes inserts slow by itself, the longest time that anybody but the drop waited for a lock.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import asyncpg

from harness.bench import Bench, main
from inboxd.settings import Settings
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import Metrics
from inboxd.upkeep.retention import Retention

PRODUCERS, EVERY, AT_ONCE = 4, 0.02, 25
# Of a stretch; with few rows only whether it runs is of interest.
SECONDS, FEW = 20.0, 10_000
SQL = Statements("inboxd")
PAYLOAD = "jsonb_build_object('n', n, 'pad', repeat('x', 170))"
EMIT = (
    f"insert into inboxd.events (type, payload) select 'bench.noop', {PAYLOAD}"
    f" from generate_series(1, {AT_ONCE}) n"
)
WAITS = (
    "select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0) from pg_locks l"
    " join pg_stat_activity a using (pid) where not l.granted"
    " and a.application_name not like '%retention'"
)
EVENTS = (
    "insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, source,"
    " payload, correlation_id, status, attempts, crashes, run_at, occurred_at, created_at,"
    " updated_at, finished_at, duration, worker_id) select n, inboxd.new_uuid(), 'default',"
    f" 'single', 'bench.noop', 1, 'shop', {PAYLOAD}, gen_random_uuid()::text, 'succeeded', 1, 0,"
    " at, at, at, at, at, interval '1 ms', '00000000-0000-0000-0000-000000000001'"
)
COMMANDS = (
    "insert into inboxd.commands_history (id, command_id, queue, type, schema_version, payload,"
    " priority, status, attempts, crashes, fence, run_at, worker_id, started_at, cancel_requested,"
    " origin_kind, origin_id, correlation_id, causation_id, created_at, updated_at, finished_at,"
    " duration, awaited) select n, inboxd.new_uuid(), 'default', 'bench.noop', 1,"
    f" {PAYLOAD}, 0, 'succeeded', 1, 0, 1, at, '00000000-0000-0000-0000-000000000001', at, false,"
    " 'event', n, gen_random_uuid()::text, gen_random_uuid(), at, at, at, interval '1 ms', false"
)


async def fill(connection: asyncpg.Connection, parent: str, days: int, rows: int) -> float:
    """A day so long ago, with so many rows; bytes a row, with indexes."""
    low = datetime.now(UTC).date() - timedelta(days=days)
    part = f"inboxd.{parent}_{low:%Y%m%d}"
    await connection.execute(
        f"create table {part} (like inboxd.{parent} including all);"
        f"alter table inboxd.{parent} attach partition {part}"
        f" for values from ('{low} 00:00+00') to ('{low + timedelta(days=1)} 00:00+00')"
    )
    insert = EVENTS if parent == "events_history" else COMMANDS
    await connection.execute(
        f"{insert} from (select n, timestamptz '{low} 00:00+00' + n * interval '1 day' / {rows + 1}"
        f" as at from generate_series(1, {rows}) n) t",
        timeout=900,
    )
    await connection.execute(f"vacuum analyze {part}", timeout=900)
    return float(await connection.fetchval("select pg_total_relation_size($1)", part)) / rows


async def produce(bench: Bench, took: list[float], stop: asyncio.Event) -> None:
    """Insert so often as wanted; how long each insert took, in seconds."""
    connection = await asyncpg.connect(bench.dsn)
    due = time.monotonic()
    while not stop.is_set():
        due += EVERY
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        await connection.execute(EMIT)
        took.append(time.monotonic() - began)
    await connection.close()


async def watch(bench: Bench, waits: list[float], stop: asyncio.Event) -> None:
    """Look every 5 ms how long sessions have waited for a lock, in seconds."""
    connection = await asyncpg.connect(bench.dsn)
    while not stop.is_set():
        waits.append(float(await connection.fetchval(WAITS)))
        await asyncio.sleep(0.005)
    await connection.close()


async def stretch(bench: Bench, what: str, work: Callable[[], Awaitable[object]]) -> str:
    """A line: the slowest insert while `work` is done."""
    took: list[float] = []
    waits: list[float] = []
    stop = asyncio.Event()
    sessions = [asyncio.create_task(produce(bench, took, stop)) for _ in range(PRODUCERS)]
    sessions.append(asyncio.create_task(watch(bench, waits, stop)))
    began = time.monotonic()
    share = min(1.0, bench.rows / FEW)
    await asyncio.sleep(3 * share)
    work_began = time.monotonic()
    await work()
    worked = time.monotonic() - work_began
    await asyncio.sleep(max(1.0, SECONDS * share - (time.monotonic() - began)))
    seconds = time.monotonic() - began
    stop.set()
    await asyncio.gather(*sessions)
    took.sort()
    rate = AT_ONCE * len(took) / seconds
    p99 = took[int(0.99 * len(took))]
    slow = f"{1e3 * p99:.0f} ms | {1e3 * took[-1]:.0f} ms | {1e3 * max(waits):.0f} ms"
    return f"| {what} | {worked:.1f} s | {rate:,.0f}/s | {slow} |"


async def _leads() -> bool:
    return True


async def let_go(dsn: str, days: int) -> None:
    """One turn of the duty, as a worker does it."""
    settings = Settings(database={"dsn": dsn}, history={"events": f"{days}d"})  # type: ignore[arg-type]
    await Retention(settings, SQL, Metrics("0"), _leads).turn()


@asynccontextmanager
async def humble(bench: Bench, connection: asyncpg.Connection) -> AsyncIterator[str]:
    """The DSN of a login that has the worker's role, and owns nothing."""
    with suppress(asyncpg.DuplicateObjectError):
        await connection.execute(
            "create role bench_worker login; grant inboxd_worker to bench_worker"
        )
    place = bench.dsn.rpartition("@")[2]
    yield f"postgresql://bench_worker@{place}"


async def figures(bench: Bench) -> AsyncIterator[str]:
    """The stretches, and the weights."""
    async with bench.fresh() as connection:
        weights = [await fill(connection, "events_history", days, bench.rows) for days in (100, 60)]
        weight = await fill(connection, "commands_history", 60, max(1000, bench.rows // 10))
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
            yield await stretch(bench, "the owner drops one", lambda: let_go(bench.dsn, 80))
            async with humble(bench, connection) as dsn:
                yield await stretch(bench, "the worker's role drops one", lambda: let_go(dsn, 30))
            left = await connection.fetchval(
                "select count(*) from inboxd.retired where dropped_at is not null"
            )
            yield await stretch(bench, "no drop, again", nothing)
    yield f"\n{left} partitions of {bench.rows:,} rows were dropped."
    yield f"A row weighs {weights[0]:.0f} bytes as an event, {weight:.0f} as a command, settled."
    yield f"An event writes {float(wal) / max(1, settled):,.0f} bytes of WAL, insert to history."


if __name__ == "__main__":
    main(
        figures,
        __doc__,
        header=(
            "| stretch | the drop took | events | insert, p99 | slowest insert | lock wait |\n"
            "|---|---|---|---|---|---|"
        ),
    )
