"""The cost of a row for the server on any machine: WAL bytes and commits, and CPU.

    make bench ONLY=wal              # or: python benchmarks/wal.py --rows 100000

The backlogs of `drain`, drained by one worker after a checkpoint: once with default settings, so
that the first change of a page after the checkpoint writes the whole page, and once with
`full_page_writes` off, as if checkpoints were far apart. The inserts are those of one client that
writes a thousand rows in each transaction. Commits are those of the database, including the
worker's polls and heartbeats. Bytes and commits are the same on other machines; CPU is not.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
from drain import Drain, drains

from harness.bench import Bench, called, emptied, main
from harness.cpu import seconds

HEADER = (
    "| what | WAL bytes per row, with full-page images | without | commits per row "
    "| CPU µs per row: worker + server |\n|---|---|---|---|---|"
)
_PAGE = 1_000


@dataclass(slots=True)
class RowCost:
    """The costs so far; after the division, the costs of one row."""

    wal: float = 0.0
    commits: float = 0.0
    worker: float = 0.0
    server: float = 0.0


@dataclass(frozen=True, slots=True)
class CostLine:
    """One backlog, with full-page images and without."""

    what: str
    whole: RowCost
    without: RowCost

    def __str__(self) -> str:
        whole = self.whole
        cells = (
            self.what,
            f"{whole.wal:,.0f} B",
            f"{self.without.wal:,.0f} B",
            f"{whole.commits:.4f}",
            f"{whole.worker:.1f} + {whole.server:.1f}",
        )
        return f"| {' | '.join(cells)} |"


async def _wal(connection: asyncpg.Connection) -> int:
    return int(await connection.fetchval("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))


async def _commits(connection: asyncpg.Connection) -> int:
    """Commits of the sessions that have ended, and those that the others have reported."""
    return int(
        await connection.fetchval(
            "select xact_commit from pg_stat_database where datname = current_database()"
        )
    )


@asynccontextmanager
async def _images(connection: asyncpg.Connection, *, on: bool) -> AsyncIterator[None]:
    """Turn full-page images on or off during the block."""
    change = f"alter system set full_page_writes = {'on' if on else 'off'}"
    await connection.execute(change)
    await connection.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        await connection.execute("alter system reset full_page_writes")
        await connection.execute("select pg_reload_conf()")


async def _drained(bench: Bench, drain: Drain, *, images: bool) -> RowCost:
    """Drain the backlog by one worker, after a checkpoint."""
    async with bench.fresh() as connection, _images(connection, on=images):
        await drain.fill(connection)
        commits = await _commits(connection)
        async with bench.held_daemons(1, drain.settings) as ((daemon,), release):
            await connection.execute("checkpoint")
            wal, server, worker = (
                await _wal(connection),
                bench.server_seconds(),
                seconds(daemon.pid),
            )
            await release()
            await called([daemon], drain.rows * drain.calls_a_row)
            await emptied(connection, f"inboxd.{drain.table}")
            wal = await _wal(connection) - wal
            server, worker = bench.server_seconds() - server, seconds(daemon.pid) - worker
        # The worker's sessions have ended, so all their commits are reported.
        commits = await _commits(connection) - commits
    each = 1 / drain.rows
    return RowCost(wal * each, commits * each, worker * 1e6 * each, server * 1e6 * each)


async def _inserted(bench: Bench, drain: Drain, *, images: bool) -> RowCost:
    """Write the same rows as a producer does."""
    queue = "" if drain.table == "events" else "queue, "
    name = "" if drain.table == "events" else "'default', "
    insert = (
        f"insert into inboxd.{drain.table} ({queue}type, payload) select {name}'{drain.type}',"
        " jsonb_build_object('n', n, 'pad', repeat('x', $2::int)) from generate_series(1, $1) n"
    )
    async with bench.fresh() as connection, _images(connection, on=images):
        producer = await bench.connect()
        try:
            await connection.execute("checkpoint")
            wal, server = await _wal(connection), bench.server_seconds()
            done = commits = 0
            while done < drain.rows:
                page = min(_PAGE, drain.rows - done)
                await producer.execute(insert, page, max(0, drain.size - 30))
                done, commits = done + page, commits + 1
            wal, server = await _wal(connection) - wal, bench.server_seconds() - server
        finally:
            await producer.close()
    each = 1 / drain.rows
    return RowCost(wal * each, commits * each, 0.0, server * 1e6 * each)


async def figures(bench: Bench) -> AsyncIterator[CostLine]:
    """One line for each backlog, and one for the inserts of its producer."""
    for drain in drains(bench):
        if bench.wants(drain.what):
            whole, without = [await _drained(bench, drain, images=on) for on in (True, False)]
            yield CostLine(drain.what, whole, without)
    for drain in drains(bench):
        what = f"inserts of {drain.what}"
        if drain.what.startswith("no-op") and bench.wants(what):
            whole, without = [await _inserted(bench, drain, images=on) for on in (True, False)]
            yield CostLine(what, whole, without)


if __name__ == "__main__":
    main(figures, __doc__, header=HEADER)
