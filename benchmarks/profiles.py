"""Where the time of a drain goes: functions of the worker, statements of the server.

    make profile                     # or: python benchmarks/profiles.py --lines "no-op events"

py-spy samples the worker 500 times per second, which costs it a little, and counts threads that run
Python (the C code of the driver and the loop counts for its caller); pg_stat_statements counts
every statement, also those inside functions. The worker's shares are of its busy time: by the
function that was running («self»), and by each function on the stack («total»).
"""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
from drain import Drain, drains

from harness.bench import SERVER, Bench, called, emptied, main

SETTINGS = {
    **SERVER,
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.track_planning": "on",
}
STATEMENTS = """
    select substr(regexp_replace(query, '\\s+', ' ', 'g'), 1, 60) as query, calls,
           1000 * (total_exec_time + total_plan_time) as us, wal_bytes::float8 as wal
      from pg_stat_statements s join pg_database d on d.oid = s.dbid and d.datname = 'bench'
     where calls > 5 and toplevel order by 3 desc limit 6
"""
TOP = 12


async def profile(bench: Bench, drain: Drain) -> AsyncIterator[str]:
    """Drain once under both profilers."""
    stacks = bench.folder / "stacks"
    async with bench.fresh() as connection:
        await connection.execute("create extension pg_stat_statements")
        await drain.fill(connection)
        async with bench.held_daemons(1, drain.settings) as ([daemon], release):
            await connection.execute("select pg_stat_statements_reset()")
            spy = _spy(daemon.pid, stacks)
            await release()
            await called([daemon], drain.rows)
            await emptied(connection, f"inboxd.{drain.table}")
            spy.send_signal(2)
            await asyncio.to_thread(spy.wait)
        yield f"\n#### {drain.what}\n\n{functions(stacks)}"
        yield f"\n{await statements(connection, drain.rows)}"


def _spy(pid: int, stacks: Path) -> "subprocess.Popen[bytes]":
    program = Path(sys.executable).with_name("py-spy")
    options = [
        "--format=raw",
        "--rate=500",
        "--function",
        "--gil",
        f"--output={stacks}",
        f"--pid={pid}",
    ]
    return subprocess.Popen(
        [program, "record", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def functions(stacks: Path) -> str:
    """The functions that ran most, from a file that counts each stack."""
    own, inclusive = Counter[str](), Counter[str]()
    for line in stacks.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        own[frames[-1]] += int(count)
        for frame in set(frames):
            inclusive[frame] += int(count)
    whole = sum(own.values())
    rows = [
        f"| `{name}` | {count / whole:.1%} | {inclusive[name] / whole:.1%} |"
        for name, count in own.most_common(TOP)
    ]
    return "\n".join(["| function | self | total |", "|---|---|---|", *rows])


async def statements(connection: asyncpg.Connection, rows: int) -> str:
    """The statements that took longest."""
    lines = [
        f"| `{_cell(row['query'])}` | {row['calls']} "
        f"| {row['us'] / rows:.1f} | {row['wal'] / rows:,.0f} |"
        for row in await connection.fetch(STATEMENTS)
    ]
    head = ["| statement | calls | µs per row | WAL bytes per row |", "|---|---|---|---|"]
    return "\n".join(head + lines)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


async def sections(bench: Bench) -> AsyncIterator[str]:
    """One section for each kind of backlog."""
    for drain in drains(bench):
        if bench.wants(drain.what):
            async for section in profile(bench, drain):
                yield section


if __name__ == "__main__":
    main(sections, __doc__, header="", settings=SETTINGS)
