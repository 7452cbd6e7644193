"""A burst into tables that were analyzed while they were empty, compared with an earlier burst.

    make bench ONLY=bursts

The table of a queue is empty most of the time, and ANALYZE reports that to the planner; a snapshot
(a dump, a report) keeps the file full of dead rows meanwhile. Each turn has a database and a worker
of its own. It drains --rows in the normal state («before»), then as many under a snapshot; then it
analyzes the empty tables, has the worker make its plans with a thousand rows, and inserts --rows at
once. The time is from the commit of the burst until the handler was called for its last row, at
most twenty seconds: a plan that reads the whole table would take hours, and the rate until then is
printed. Autovacuum is off, so that it cannot repair the statistics meanwhile.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
import asyncpg

from harness.backlog import PAD, payload
from harness.bench import SERVER, Bench, Daemon, emptied, main
from harness.figures import Line, Run, Target
from harness.pace import Pace, pace

SETTINGS = {**SERVER, "autovacuum": "off"}
LIMIT = 20.0
# The size of a chunk of the plugin's topic: no row waits for a fuller chunk.
FEW = 1_000
SIZE = 200


@dataclass(frozen=True, slots=True)
class Burst:
    """The rows of a burst: SQL for columns and values, from `n`."""

    what: str
    table: str
    columns: str
    values: str

    async def insert(self, connection: asyncpg.Connection, rows: int) -> None:
        """Insert in one statement of a transaction that stays open."""
        await connection.execute(
            f"begin; insert into inboxd.{self.table} ({self.columns}, payload) "
            f"select {self.values}, {payload(SIZE)} "
            f"from {PAD} as t(pad), generate_series(1, {rows}) n"
        )


BURSTS = (
    Burst("events", "events", "type", "'bench.noop'"),
    Burst("commands", "commands", "queue, type", "'default', 'bench.noop'"),
    Burst(
        "events of a sequential topic, of 1,000 keys",
        "events",
        "topic, type, ordering_key",
        "'lines', 'bench.turn', 'key ' || n % 1000",
    ),
    Burst(
        "chunks of 1,000",
        "events",
        "topic, type, ordering_key",
        "'bench-chunks', 'bench.chunked', ''",
    ),
)


@dataclass(slots=True)
class Drain:
    """One worker, and the number of rows inserted for it so far."""

    bench: Bench
    burst: Burst
    daemon: Daemon
    connection: asyncpg.Connection
    given: int = 0

    async def take(self, rows: int) -> Pace:
        """Insert and commit a burst; measure how fast the worker handles it."""
        await self.burst.insert(self.connection, rows)
        self.given += rows
        return await pace(self.bench, self.daemon, self.connection, self.given, LIMIT)


async def turn(bench: Bench, burst: Burst) -> tuple[Pace, Pace]:
    """The burst before, and the burst into the tables that were analyzed empty."""
    # Whole chunks: no row is left for the next burst.
    rows = -(-bench.rows // FEW) * FEW
    async with bench.fresh() as holder:
        producer = await asyncpg.connect(bench.dsn)
        with bench.daemon() as daemon:
            await daemon.ready()
            drain = Drain(bench, burst, daemon, producer)
            await drain.take(FEW)
            before = await drain.take(rows)
            await holder.execute("begin isolation level repeatable read; select 1 from ledger")
            await drain.take(rows)
            await _analyzed(producer)
            await drain.take(FEW)
            after = await drain.take(rows)
        await producer.close()
    return before, after


async def _analyzed(connection: asyncpg.Connection) -> None:
    """Wait until the last page is settled, then tell the planner that the tables are empty."""
    with anyio.move_on_after(LIMIT):
        await emptied(connection, "inboxd.events", "inboxd.commands")
    await connection.execute("analyze inboxd.events, inboxd.commands, inboxd.batch_progress")


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """Two lines for each kind of burst."""
    for burst in BURSTS:
        if not bench.wants(burst.what):
            continue
        turns = [await turn(bench, burst) for _ in range(bench.repeat)]
        yield Line(
            burst.what,
            [after.run for _, after in turns],
            "before",
            [before.run for before, _ in turns],
            Target(share=0.9),
        )
        slowest = [
            (Run(after.slowest_second), Run(before.slowest_second)) for before, after in turns
        ]
        yield Line(
            "their slowest second",
            [after for after, _ in slowest],
            "before",
            [before for _, before in slowest],
        )


if __name__ == "__main__":
    main(figures, __doc__, settings=SETTINGS)
