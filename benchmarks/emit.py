"""How fast one producer writes in bulk, compared with one statement that inserts the same rows.

    make bench ONLY=emit             # or: python benchmarks/emit.py --rows 100000

One asyncpg connection writes pages of 1,000 rows and commits each page; the time is from drafts,
whose payloads are dicts of about 200 bytes, to receipts. No worker runs: the CPU of «worker» is the
producer's. The raw side sends the same JSON, encoded beforehand, with ids of its own, and reads
nothing back. `inboxd emit --file` writes a file of JSON lines: the time is from the start of that
program to its end.
"""

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import asyncpg

from harness.bench import Bench, main
from harness.figures import Comparison, Line, Run, Target
from inboxd.client import Inbox, NewCommand, NewEvent
from inboxd.model.lineage import uuid7

PAGE = 1_000
RAW = (
    "insert into inboxd.events (event_id, type, payload) "
    "select * from unnest($1::uuid[], $2::text[], $3::text[]::jsonb[])"
)
Write = Callable[[asyncpg.Connection, int], Awaitable[None]]


def _payload(n: int) -> dict[str, object]:
    return {"n": n, "pad": "x" * 170}


async def emit_many(connection: asyncpg.Connection, rows: int) -> None:
    """Emit events by the client."""
    drafts = (NewEvent("bench.noop", _payload(n)) for n in range(rows))
    await Inbox().emit_many(connection, drafts)


async def send_many(connection: asyncpg.Connection, rows: int) -> None:
    """Send commands by the client."""
    drafts = (NewCommand("bench.noop", _payload(n), queue="default") for n in range(rows))
    await Inbox().send_many(connection, drafts)


async def emit_raw(connection: asyncpg.Connection, rows: int) -> None:
    """Insert events, one statement for each page."""
    texts = [json.dumps(_payload(n)) for n in range(PAGE)]
    types = ["bench.noop"] * PAGE
    for _ in range(rows // PAGE):
        await connection.execute(RAW, [uuid7() for _ in range(PAGE)], types, texts)


async def measure(bench: Bench, write: Write) -> Run:
    """Write all rows into an empty table."""
    rows = max(bench.rows, PAGE)
    async with bench.fresh():
        connection = await asyncpg.connect(bench.dsn)  # like a service's, without planner settings
        await write(connection, PAGE)
        await connection.execute("checkpoint")
        server, client, started = bench.server_seconds(), time.process_time(), time.perf_counter()
        await write(connection, rows)
        took, client = time.perf_counter() - started, time.process_time() - client
        server = bench.server_seconds() - server
        await connection.close()
    return Run(rows / took, client * 1e6 / rows, server * 1e6 / rows)


async def measure_file(bench: Bench, command: str) -> Run:
    """Write a file of `--rows` lines into an empty table."""
    rows = max(bench.rows, PAGE)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for n in range(rows):
            file.write(json.dumps({"type": "bench.noop", "payload": _payload(n)}) + "\n")
        file.flush()
        async with bench.fresh() as connection:
            await connection.execute("checkpoint")
            server, started = bench.server_seconds(), time.perf_counter()
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "inboxd", command, "--file", file.name, "--force"),
                env={**os.environ, "INBOXD_DATABASE__DSN": bench.dsn},
                stdout=asyncio.subprocess.DEVNULL,
            )
            if code := await program.wait():
                raise SystemExit(f"inboxd {command} --file ended with {code}")
            took = time.perf_counter() - started
            server = bench.server_seconds() - server
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    client = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(rows / took, client * 1e6 / rows, server * 1e6 / rows)


def comparisons(bench: Bench) -> Iterator[Comparison]:
    """Events and commands, by the client and from files."""
    other = partial(measure, bench, emit_raw)
    emit, send = partial(measure, bench, emit_many), partial(measure, bench, send_many)
    yield Comparison("bulk emit, events", emit, Target(100_000), "raw SQL", other)
    yield Comparison("bulk send, commands", send)
    file = partial(measure_file, bench, "emit")
    yield Comparison("a file of events", file, Target(20_000), "raw SQL", other)
    yield Comparison("a file of commands", partial(measure_file, bench, "send"))


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each way of writing."""
    return bench.compare(comparisons(bench))


if __name__ == "__main__":
    main(figures, __doc__)
