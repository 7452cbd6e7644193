"""How fast one worker drains a backlog, beside the raw SQL of the same statements in the same run.

    make bench                       # or: python benchmarks/drain.py --rows 100000

Machines drift, so read the ratio first. Both sides use the whole schema with all its indexes, a
durable server on this machine, and payloads of about 200 bytes; the worker also decodes payloads,
calls handlers, and keeps metrics and statistics. The latency is from the insert's transaction to
the settlement, one event every 20 ms.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
from pydantic import SecretStr

from inboxd.embedded import Server, free_port
from inboxd.model.lane import Lane
from inboxd.settings import Database
from inboxd.store import commands, events, workers
from inboxd.store.connections import OWN_PLANS
from inboxd.store.migrations import migrate
from inboxd.store.statements import Statements

SQL = Statements("inboxd")
SERVER = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
FILL = {
    "events": "insert into inboxd.events (type, payload) select 'test.noop', "
    "jsonb_build_object('n', n, 'pad', repeat('x', 170)) from generate_series(1, $1::int) n",
    "fan": "insert into inboxd.events (type, payload) select 'test.fan', "
    "jsonb_build_object('n', n, 'sends', 1, 'pad', repeat('x', 160)) "
    "from generate_series(1, $1::int) n",
    "commands": "insert into inboxd.commands (type, queue, payload) select 'test.noop', 'default', "
    "jsonb_build_object('n', n, 'pad', repeat('x', 170)) from generate_series(1, $1::int) n",
    "own": "insert into inboxd.commands (type, queue, payload) select 'test.ledger', 'default', "
    "jsonb_build_object('n', 0, 'pad', repeat('x', 170)) from generate_series(1, $1::int) n",
}
LEFT = "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
SPAN = (
    "select count(*) / extract(epoch from max(finished_at) - min(finished_at))::float8 "
    "from inboxd.{} where type = $1"
)


async def fresh(dsn: str) -> asyncpg.Connection:
    """An empty, migrated database on this connection."""
    admin = await asyncpg.connect(dsn)
    await admin.execute("drop database if exists bench with (force)")
    await admin.execute("create database bench")
    await admin.close()
    target = dsn.removesuffix("/postgres") + "/bench"
    await migrate(Database(dsn=SecretStr(target)))
    connection = await asyncpg.connect(target, server_settings={**OWN_PLANS, "jit": "off"})
    await connection.execute("create table ledger (kind text, row_id bigint, note text)")
    return connection


async def fill(connection: asyncpg.Connection, what: str, rows: int) -> None:
    """Rows to drain, on a table that is vacuumed, as before each measurement."""
    await connection.execute(FILL[what], rows, timeout=300)
    await connection.execute("vacuum analyze inboxd.events, inboxd.commands")
    await connection.execute("checkpoint")


@contextmanager
def worker(dsn: str) -> Iterator[str]:
    """A daemon as a user runs it; gives the URL of its health and metrics."""
    port = free_port()
    environment = os.environ | {
        "INBOXD_DATABASE__DSN": dsn.removesuffix("/postgres") + "/bench",
        "INBOXD_HTTP__PORT": str(port),
        "INBOXD_WORKER__PLUGINS": "testplugin",
        "INBOXD_LOG__LEVEL": "warning",
    }
    process = subprocess.Popen([sys.executable, "-m", "inboxd", "run"], env=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


async def drain(dsn: str, what: str, rows: int, history: str, type_: str) -> float:
    """Rows a second, between the first and the last settlement."""
    connection = await fresh(dsn)
    await fill(connection, what, rows)
    with worker(dsn) as url:
        await ready(url)
        await drained(connection)
    rate: float = await connection.fetchval(SPAN.format(history), type_)
    await connection.close()
    return rate


async def raw_events(dsn: str, rows: int) -> float:
    """The event processor's own statements, without a processor."""
    connection = await fresh(dsn)
    await fill(connection, "events", rows)
    me, done, lane = uuid4(), 0, Lane(("default", "test.noop"))
    started = time.perf_counter()
    while done < rows:
        async with connection.transaction():
            page = await events.claim(connection, SQL, [lane], 1000)
            await events.settle(connection, SQL, [(row["id"], 0.0) for row in page], me)
        lane.advance(page[-1]["run_at"], page[-1]["id"])
        done += len(page)
    rate = rows / (time.perf_counter() - started)
    await connection.close()
    return rate


async def raw_commands(dsn: str, rows: int) -> float:
    """The command processor's own statements, without a processor."""
    connection = await fresh(dsn)
    await fill(connection, "commands", rows)
    me = workers.Incarnation(uuid4(), "raw", "raw", 1, "0", (), (), (), "")
    await workers.join(connection, SQL, me)
    done, lane = 0, Lane(("default", "test.noop", 0))
    started = time.perf_counter()
    while done < rows:
        page = await commands.claim(connection, SQL, me.id, {"default": 100}, [lane], 100)
        ended = [
            commands.Settlement(row["id"], row["fence"], "succeeded", 0.0, None) for row in page
        ]
        await commands.settle(connection, SQL, me.id, ended)
        lane.advance(page[-1]["run_at"], page[-1]["id"])
        done += len(page)
    rate = rows / (time.perf_counter() - started)
    await connection.close()
    return rate


async def latency(dsn: str, count: int) -> list[float]:
    """Milliseconds from the insert to the settlement: p50, p95, p99."""
    connection = await fresh(dsn)
    with worker(dsn) as url:
        await ready(url)
        for _ in range(count):
            await connection.execute(
                "insert into inboxd.events (type, payload) values ('test.noop', '{\"n\": 1}')"
            )
            await asyncio.sleep(0.02)
        await drained(connection)
        found: list[float] = await connection.fetchval(
            "select percentile_cont(array[0.5, 0.95, 0.99]) within group (order by "
            "extract(epoch from finished_at - created_at) * 1000) from inboxd.events_history"
        )
    await connection.close()
    return found


async def drained(connection: asyncpg.Connection) -> None:
    """Wait until nothing is left; looking costs a little, so it is not done often."""
    for _ in range(3000):
        if not await connection.fetchval(LEFT):
            return
        await asyncio.sleep(0.2)
    raise SystemExit("the backlog was not drained in ten minutes")


async def ready(url: str) -> None:
    """Wait until the worker processes."""
    for _ in range(100):
        try:
            await asyncio.to_thread(urllib.request.urlopen, f"{url}/readyz")
        except OSError:
            await asyncio.sleep(0.1)
        else:
            return
    raise SystemExit("the worker did not become ready")


async def main(rows: int) -> None:
    """Measure everything, one after the other, each on a fresh database."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server.start(Path(folder) / "data", settings=SERVER)
        try:
            await measure(server.dsn(), rows)
        finally:
            server.stop()


async def measure(dsn: str, rows: int) -> None:
    """Print a line for each measurement."""
    raw = await raw_events(dsn, rows)
    rate = await drain(dsn, "events", rows, "events_history", "test.noop")
    print(
        f"no-op events             {rate:9,.0f}/s   raw SQL {raw:9,.0f}/s   ratio {rate / raw:.2f}"
    )
    rate = await drain(dsn, "fan", rows, "events_history", "test.fan")
    print(f"events sending a command {rate:9,.0f}/s   (its commands are drained beside them)")
    raw = await raw_commands(dsn, rows)
    rate = await drain(dsn, "commands", rows, "commands_history", "test.noop")
    print(
        f"no-op commands           {rate:9,.0f}/s   raw SQL {raw:9,.0f}/s   ratio {rate / raw:.2f}"
    )
    rate = await drain(dsn, "own", rows // 5, "commands_history", "test.ledger")
    print(f"commands with an insert  {rate:9,.0f}/s   (a transaction each)")
    p50, p95, p99 = await latency(dsn, 500)
    print(f"latency at 50/s          p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each backlog")
    asyncio.run(main(parser.parse_args().rows))
