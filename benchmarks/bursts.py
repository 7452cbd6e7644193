"""A burst into tables that were drained and analyzed under a held snapshot, beside one before.

    make bench ONLY=bursts

A queue's table is empty most of the time, and that is what ANALYZE tells the planner; a snapshot (a
dump, a report) keeps the file full of dead rows meanwhile. Each turn has a database and a worker of
its own: --rows are drained in the normal state («before»), as many under a snapshot, then the
emptied tables are analyzed, a thousand rows make the worker plan in that state, and --rows come at
once. From the commit of a burst until its last row was handled, twenty seconds at most: a plan
that looks at the whole table would take hours, and the rate so far says it. Autovacuum is off, so
that nothing heals meanwhile.
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
# As many as a chunk of the plugin's topic has, so that none of them waits for others.
FEW = 1_000
SIZE = 200


@dataclass(frozen=True, slots=True)
class Burst:
    """What comes at once: SQL for columns and values, from `n`."""

    what: str
    table: str
    columns: str
    values: str

    async def insert(self, connection: asyncpg.Connection, rows: int) -> None:
        """In one statement of a transaction that stays open."""
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
    """One worker, what it was given so far, and how it takes more."""

    bench: Bench
    burst: Burst
    daemon: Daemon
    connection: asyncpg.Connection
    given: int = 0

    async def take(self, rows: int) -> Pace:
        """Insert a burst, and watch it go."""
        await self.burst.insert(self.connection, rows)
        self.given += rows
        return await pace(self.bench, self.daemon, self.connection, self.given, LIMIT)


async def turn(bench: Bench, burst: Burst) -> tuple[Pace, Pace]:
    """The burst before, and the one into the tables that were analyzed empty."""
    # Chunks are complete: nothing is left for the next burst.
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
    """Tell the planner that the tables are empty, which they are once the last page is settled."""
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
