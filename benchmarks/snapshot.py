"""The cost of an open snapshot: a backup, a forgotten transaction, a slow report.

    make bench ONLY=snapshot

Events and commands, with autovacuum's default settings and with a nap of three seconds. A stretch:
the feeder inserts half of --rows in one statement while half as many still wait; then it rests, and
from its commit the worker's rate is measured until half as many wait again. So the feeder neither
limits nor slows what is measured (its own rate is a line of the table). There are such stretches
before the snapshot, under it until ten times --rows have been handled, and after its release. Rates
are those of the last five stretches; the slowest second is that of all. Machines drift: CPU
microseconds per row show what claims really cost.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import asyncpg

from harness.backlog import PAD, payload
from harness.bench import Bench, Daemon, main
from harness.cpu import seconds
from harness.figures import Line, Run, Target
from harness.pace import Pace, pace

COLUMNS = {"events": "type", "commands": "queue, type"}
VALUES = {"events": "'bench.noop'", "commands": "'default', 'bench.noop'"}
NAPS = {"autovacuum's default": None, "a nap of 3 s": "3s"}
# The longest stretch, in seconds.
LIMIT = 30.0
LAST = 5


@dataclass(slots=True)
class Feed:
    """The feeder of one worker, and the stretches that the worker took so far."""

    bench: Bench
    table: str
    daemon: Daemon
    connection: asyncpg.Connection
    fed: int = 0
    runs: list[Run] = field(default_factory=list)

    async def insert(self, rows: int) -> None:
        """Insert `rows` without a commit, and record the rate and the CPU of the session."""
        pid = self.connection.get_server_pid()
        cpu, started = seconds(pid), time.monotonic()
        await self.connection.execute(
            f"begin; insert into inboxd.{self.table} ({COLUMNS[self.table]}, payload) "
            f"select {VALUES[self.table]}, {payload(200)} "
            f"from {PAD} as t(pad), generate_series(1, {rows}) n"
        )
        took, cpu = time.monotonic() - started, seconds(pid) - cpu
        self.runs.append(Run(rows / took, None, cpu * 1e6 / rows))
        self.fed += rows

    async def stretches(self, rows: int) -> list[Pace]:
        """Measure stretches until `rows` are handled, at least LAST of them."""
        page, taken, end = max(2, self.bench.rows // 2), list[Pace](), self.fed + rows
        while len(taken) < LAST or self.fed < end:
            await self.insert(page)
            goal = self.fed - page // 2
            taken.append(await pace(self.bench, self.daemon, self.connection, goal, LIMIT))
            if self.daemon.marks.calls < goal:
                break  # collapsed: the rate until here shows it
        return taken


async def measure(bench: Bench, table: str, nap: str) -> AsyncIterator[Line]:
    """The lines before, under and after a snapshot."""
    rows = bench.rows
    async with bench.fresh() as connection:
        await _nap(connection, NAPS[nap])
        feeder = await asyncpg.connect(bench.dsn)
        with bench.daemon() as daemon:
            await daemon.ready()
            feed = Feed(bench, table, daemon, feeder)
            await feed.stretches(rows)
            before = await feed.stretches(0)
            await connection.execute("begin isolation level repeatable read; select 1 from ledger")
            held = await feed.stretches(11 * rows)
            await connection.execute("commit")
            await feed.stretches(rows)
            after = await feed.stretches(0)
        await feeder.close()
        await _nap(connection, None)
    yield Line(f"{table} before a snapshot, {nap}", _runs(before))
    yield _beside(f"{table} under it, {10 * rows:,} later", held, before, Target(share=0.8))
    slowest = [Run(min(each.slowest_second for each in part)) for part in (held, before)]
    yield Line("their slowest second", slowest[:1], "before", slowest[1:])
    yield _beside(f"{table} after its release", after, before)
    yield Line(f"{table} inserted meanwhile", feed.runs)


def _runs(taken: list[Pace]) -> list[Run]:
    return [each.run for each in taken[-LAST:]]


def _beside(what: str, taken: list[Pace], before: list[Pace], target: Target | None = None) -> Line:
    return Line(what, _runs(taken), "before", _runs(before), target)


async def _nap(connection: asyncpg.Connection, nap: str | None) -> None:
    value = "default" if nap is None else f"'{nap}'"
    await connection.execute(f"alter system set autovacuum_naptime = {value}")
    await connection.execute("select pg_reload_conf()")


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Both tables, with both settings."""
    for table in COLUMNS:
        for nap in NAPS:
            if bench.wants(f"{table}, {nap}"):
                async for line in measure(bench, table, nap):
                    yield line


if __name__ == "__main__":
    main(figures, __doc__)
