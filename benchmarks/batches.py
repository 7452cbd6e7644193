"""The cost of a batch for its commands, the delay of its continuation, and the cost of a graph.

    make bench ONLY=batches          # or: python benchmarks/batches.py --rows 100000

Commands that are all members of one batch are compared with the same commands without a batch, in
the same turns. The release is measured by the database's clock: from the settlement of the last
member until the continuation is released, and until a worker has claimed it. In the graph every
second step waits for the three steps before it; the time includes building it in a handler and
inserting it.
"""

import statistics
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import structlog
from drain import SQL, Drain

from harness.bench import Bench, emptied, main
from harness.figures import Comparison, Line, Run, Target
from inboxd.api.connection import Connection
from inboxd.api.context import EventContext
from inboxd.model.lineage import Lineage
from inboxd.registry.registry import make_registry
from inboxd.store import batches
from inboxd.store.session import Session
from inboxd.store.settlements import Parent

STEPS = 10_000
RELEASES = 100


@dataclass(frozen=True)
class InBatch(Drain):
    """The same backlog as one batch."""

    async def fill(self, connection: asyncpg.Connection) -> None:
        """Insert the backlog, then put it into a batch."""
        await super().fill(connection)
        await connection.execute(
            "insert into inboxd.batches (name, size, closed_at) "
            f"values ('bench', {self.rows}, now())"
        )
        await connection.execute("update inboxd.commands set batch_id = 1")
        await connection.execute("vacuum full analyze inboxd.commands")
        await connection.execute("checkpoint")

    async def _check(self, connection: asyncpg.Connection) -> None:
        await super()._check(connection)
        await emptied(connection, "inboxd.batch_progress")
        batch = await connection.fetchrow("select status, succeeded from inboxd.batches")
        if batch is None or tuple(batch) != ("succeeded", self.rows):
            raise SystemExit(f"{self.what}: the batch is {batch}")


def in_one_batch(bench: Bench) -> Iterator[Comparison]:
    """Drains with and without a batch, by one worker and by two workers."""
    for type_, of, rows in (
        ("bench.noop", "no-op commands", bench.rows),
        ("bench.insert", "commands with one insert", max(1, bench.rows // 5)),
    ):
        for workers in (1, 2):
            plain = Drain(of, "commands", rows, type_, workers=workers)
            batch = InBatch(of, "commands", rows, type_, workers=workers)
            what = f"{of} in one batch, {workers} worker{'s' if workers > 1 else ''}"
            measure, other = partial(batch.measure, bench), partial(plain.measure, bench)
            yield Comparison(what, measure, Target(share=0.9), "without a batch", other)


async def release(bench: Bench) -> dict[str, list[float]]:
    """Milliseconds from the last settlement to the release and the claim of the continuation."""
    member, then = (
        '{"type": "bench.noop", "queue": "default", "payload": {"n": 1, "pad": ""}}',
        '{"type": "bench.noop", "queue": "default", "payload": {"n": 2, "pad": ""}}',
    )
    async with bench.fresh() as connection:
        with bench.daemon() as daemon:
            await daemon.ready()
            for _ in range(RELEASES):
                await connection.execute(
                    f"select inboxd.send_batch('b', ('[' || repeat('{member},', 9) || '{member}]')"
                    f"::jsonb, '{then}')"
                )
                await emptied(connection, "inboxd.commands")
        rows = await connection.fetch(
            "select date_part('epoch', t.run_at - m.finished_at) * 1000 as released, "
            "date_part('epoch', t.started_at - m.finished_at) * 1000 as claimed "
            "from inboxd.commands_history t join lateral (select max(finished_at) as finished_at "
            "from inboxd.commands_history m where m.batch_id = t.origin_id) m on true "
            "where t.origin_kind = 'batch'"
        )
    if len(rows) != RELEASES:
        raise SystemExit(f"{len(rows)} of {RELEASES} continuations ran")
    return {what: sorted(row[what] for row in rows) for what in ("released", "claimed")}


def _no_connection() -> Connection:
    raise SystemExit("the graph's handler uses no connection")


def build(steps: int) -> EventContext:
    """Build a graph as a handler builds it."""
    row: dict[str, Any] = {"id": 1, "tenant": None}
    ctx: EventContext = EventContext(
        row, _no_connection, make_registry({}, {}), structlog.get_logger()
    )
    workflow = ctx.workflow("graph")
    for n in range(steps):
        after = [f"step {m}" for m in range(max(0, n - 3), n)] if n % 2 else []
        command = {"n": n, "pad": ""}
        workflow.step(f"step {n}", command, after=after, type="bench.noop", queue="default")
    return ctx


async def graph(bench: Bench) -> Run:
    """Seconds to build and insert a graph."""
    async with bench.fresh() as connection:
        started = time.perf_counter()
        async with connection.transaction():
            ctx = build(STEPS)
            plan = ctx.plan()
            if plan is None:
                raise SystemExit("the graph has no plan")
            parent = Parent("event", 1, Lineage("story", plan.batches[0].batch_id, None))
            sent = [(draft, parent) for draft in ctx.drafts]
            planned = [batches.Planned(plan, parent)]
            await batches.write(Session(connection, SQL), sent, planned)
        took = time.perf_counter() - started
        waiting = "select count(*) from inboxd.commands where needs > 0"
        if await connection.fetchval(waiting) != STEPS // 2:
            raise SystemExit("not every second step of the graph waits")
    return Run(took)


async def figures(bench: Bench) -> AsyncIterator[Line]:
    """The lines of batches, releases and graphs."""
    async for line in bench.compare(in_one_batch(bench)):
        yield line
    if bench.wants("continuation released"):
        turns = [await release(bench) for _ in range(bench.repeat)]
        for what in ("released", "claimed"):
            for share in (50, 99):
                runs = [Run(statistics.quantiles(turn[what], n=100)[share - 1]) for turn in turns]
                target = Target(10.0, most=True)
                name = f"continuation {what} after the last settlement, p{share}"
                yield Line(name, runs, target=target, unit=" ms")
    if bench.wants("graph of"):
        runs = [await graph(bench) for _ in range(bench.repeat)]
        target = Target(1.0, most=True)
        yield Line(f"graph of {STEPS:,} steps", runs, target=target, unit=" s")


if __name__ == "__main__":
    main(figures, __doc__)
