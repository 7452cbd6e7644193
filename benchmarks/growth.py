"""The cost of a large history: every operation must keep nine tenths of its speed.

    make bench ONLY=growth           # or: python benchmarks/growth.py --rows 100000 --repeat 5

Two databases on one server: an empty one, and one whose history has 200 times --rows rows, written
by COPY into one partition for each day, today included. Drains of events and commands (claims and
settlements), raw claims and settlements, and `inboxd doctor` take turns on both; then an erasure
searches for one entity. The benchmark needs 10 GB on the server's disk, and three minutes to fill
it.

Both databases are vacuumed and analyzed first, the catalogue too, as autovacuum does after some
minutes: otherwise autovacuum would have reached the database that waits, but not the one that was
just filled.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import uuid4

import asyncpg
from pydantic import SecretStr

from harness.backlog import fill_commands, fill_events
from harness.bench import Bench, called, emptied, main
from harness.cpu import seconds
from harness.figures import Comparison, Line, Run, Target
from inboxd.model.lane import Lane
from inboxd.operations.doctor import examine
from inboxd.operations.erase import subject_of, survey
from inboxd.settings import Database, Settings
from inboxd.store import events
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.store.statements import Statements

SQL = Statements("inboxd")
TIMES, DAYS, BLOCK = 200, 20, 20_000
PAYLOAD = '{"n": 1, "pad": "' + "0123456789abcdef" * 8 + '"}'
LOOKS = 20

_SHARED = "id,uuid,type,schema_version,tenant,entity_type,entity_id,payload,status,attempts,crashes"
COLUMNS = {
    "events": _SHARED.replace("uuid", "event_id")
    + ",run_at,created_at,updated_at,finished_at,occurred_at,topic,mode",
    "commands": _SHARED.replace("uuid", "command_id")
    + ",run_at,created_at,updated_at,finished_at,queue,origin_kind,priority,fence,cancel_requested"
    ",awaited",
}
LAST = {"events": "{at},default,single", "commands": "default,api,0,1,f,f"}


def lines(table: str, first: int, count: int, day: datetime) -> Iterator[bytes]:
    """Rows of one day in COPY's format: ids and uuids in the order of time."""
    quoted = PAYLOAD.replace('"', '""')
    for start in range(first, first + count, BLOCK):
        at = (day + timedelta(days=(start - first) / count)).isoformat()
        rest = f'"{quoted}",succeeded,1,0,{at},{at},{at},{at},{LAST[table].format(at=at)}'
        yield "".join(
            f"{n},{n:032x},bench.old,1,t{n % 97},user,{n % 100_003},{rest}\n"
            for n in range(start, min(start + BLOCK, first + count))
        ).encode()


async def _blocks(table: str, first: int, count: int, day: datetime) -> AsyncIterator[bytes]:
    for block in lines(table, first, count, day):
        yield block


async def fill_history(bench: Bench, rows: int) -> None:
    """Write `rows` settled rows, half of them events, over twenty days that end today."""
    await asyncio.gather(*(_fill_table(bench, table, rows // 2 // DAYS) for table in COLUMNS))
    connection = await bench.connect()
    for table in COLUMNS:
        # New rows get higher ids than the history.
        await connection.execute(f"select setval('inboxd.{table}_id_seq', {rows})")
    await connection.close()


async def settle_down(bench: Bench) -> None:
    """Do what autovacuum and the checkpointer would do in time."""
    connection = await bench.connect()
    await connection.execute("vacuum (analyze)", timeout=600)
    await connection.execute("checkpoint", timeout=600)
    await connection.close()


async def _fill_table(bench: Bench, table: str, each: int) -> None:
    connection = await bench.connect()
    await connection.execute("set maintenance_work_mem = '256MB'")
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(DAYS):
        day = today - timedelta(days=DAYS - 1 - number)
        await _fill_day(connection, table, 1 + number * each, each, day)
    await connection.close()


async def _fill_day(
    connection: asyncpg.Connection, table: str, first: int, count: int, day: datetime
) -> None:
    """Write a partition as vacuum leaves it, first without indexes, which is the fastest way."""
    part = f"{table}_history_{day:%Y%m%d}"
    async with connection.transaction():
        await connection.execute(
            f"drop table if exists inboxd.{part};"
            f"create table inboxd.{part}"
            f" (like inboxd.{table}_history including all excluding indexes)"
        )
        await connection.copy_to_table(
            part,
            schema_name="inboxd",
            columns=COLUMNS[table].split(","),
            source=_blocks(table, first, count, day),
            format="csv",
            freeze=True,
            timeout=600,
        )
        # Attaching the partition creates its indexes.
        await connection.execute(
            f"alter table inboxd.{table}_history attach partition inboxd.{part}"
            f" for values from ('{day}') to ('{day + timedelta(days=1)}')",
            timeout=600,
        )


@asynccontextmanager
async def database(bench: Bench, name: str, history: int) -> AsyncIterator[Bench]:
    """A database of its own, with `history` rows of history."""
    folder = bench.folder / name
    folder.mkdir()
    own = replace(bench, database=name, folder=folder)
    async with own.fresh() as connection:
        if history:
            started = time.monotonic()
            await fill_history(own, history)
            size = await connection.fetchval("select pg_database_size(current_database())")
            took = time.monotonic() - started
            print(f"<!-- {history:,} rows: {size / 2**30:.1f} GB, in {took:.0f} s -->", flush=True)
        yield own


async def drain(bench: Bench, table: str) -> Run:
    """How fast a worker drains a backlog."""
    connection = await bench.connect()
    try:
        await (fill_events if table == "events" else fill_commands)(connection, bench.rows)
        async with bench.held_daemons(1) as (daemons, release):
            server, worker = bench.server_seconds(), seconds(daemons[0].pid)
            await release()
            await called(daemons, bench.rows)
            ended = await emptied(connection, f"inboxd.{table}")
            server = bench.server_seconds() - server
            worker = seconds(daemons[0].pid) - worker
        took = ended - daemons[0].marks.first
    finally:
        await connection.close()
    each = 1e6 / bench.rows
    return Run(bench.rows / took, worker * each, server * each)


async def claims(bench: Bench) -> Run:
    """How fast the statements alone claim and settle events."""
    connection = await bench.connect()
    session = Session(connection, SQL)
    try:
        await fill_events(connection, bench.rows)
        me, done, lane = uuid4(), 0, Lane(("default", "bench.noop"))
        server, started = bench.server_seconds(), time.perf_counter()
        while done < bench.rows:
            async with connection.transaction():
                page = await events.claim(session, [lane], 1000)
                await events.settle(session, [(row["id"], 0.0) for row in page], me)
            lane.advance(page[-1]["run_at"], page[-1]["id"])
            done += len(page)
        took, server = time.perf_counter() - started, bench.server_seconds() - server
    finally:
        await connection.close()
    return Run(bench.rows / took, None, server * 1e6 / bench.rows)


async def looks(bench: Bench) -> Run:
    """How many times per second the doctor can examine, with a new connection each time."""
    settings = Settings(database=Database(dsn=SecretStr(bench.dsn)))
    server, started = bench.server_seconds(), time.perf_counter()
    for _ in range(LOOKS):
        async with open_session(settings.database) as session:
            unseen = [f async for _, f in examine(session, settings) if "not seen" in f.found]
        if unseen:
            raise SystemExit(f"the doctor could not examine: {unseen[0].found}")
    took, server = time.perf_counter() - started, bench.server_seconds() - server
    return Run(LOOKS / took, None, server * 1e6 / LOOKS)


async def search(bench: Bench) -> Run:
    """Rows of history per second that an erasure reads: all of them, to find one entity."""
    async with open_session(Database(dsn=SecretStr(bench.dsn))) as session:
        server, started = bench.server_seconds(), time.perf_counter()
        found = await survey(session, subject_of(None, "user", "42"))
        took, server = time.perf_counter() - started, bench.server_seconds() - server
    if not found.settled.total():
        raise SystemExit("the erasure found no rows")
    rows = TIMES * bench.rows
    return Run(rows / took, None, server * 1e6 / rows)


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Each operation on the full database, compared with the empty one."""
    target = Target(share=0.9)
    async with (
        database(bench, "vacant", 0) as empty,
        database(bench, "laden", TIMES * bench.rows) as full,
    ):
        for each in (empty, full):
            await settle_down(each)
        comparisons = [
            Comparison(what, partial(measure, full), target, "empty", partial(measure, empty))
            for what, measure in (
                ("drain of events", partial(drain, table="events")),
                ("drain of commands", partial(drain, table="commands")),
                ("claims and settlements alone", claims),
                ("looks of the doctor", looks),
            )
        ]
        comparisons.append(Comparison("rows that an erasure looks at", partial(search, full)))
        async for line in bench.compare(comparisons):
            yield line


if __name__ == "__main__":
    main(figures, __doc__)
