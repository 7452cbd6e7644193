"""How fast workers drain a backlog, compared with raw SQL of the same statements.

    make bench ONLY=drain            # or: python benchmarks/drain.py --rows 100000

The time is from the first call of a handler until the settlement of the last row. Both sides use
the whole schema, a durable server on this machine, and the same payloads; the worker also decodes
them into pydantic models, calls handlers under the default timeout, and keeps metrics and
statistics. The raw side is one connection that only claims and settles (for commands with an
insert: eight).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from uuid import uuid4

import asyncpg

from harness.backlog import fill_commands, fill_events
from harness.bench import INBOXD, Bench, called, emptied, main
from harness.cpu import seconds
from harness.figures import Comparison, Line, Run, Target
from inboxd.api.drafts import CommandDraft
from inboxd.model.lane import Lane
from inboxd.model.lineage import Lineage, uuid7
from inboxd.settings import Settings
from inboxd.store import bodies, commands, events, workers
from inboxd.store.rows import ClaimedCommand, ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Settlement
from inboxd.store.statements import Statements

SQL = Statements("inboxd")
EVENTS, COMMANDS = Settings().events, Settings().commands
SMALL, LARGE = 200, 8_192

Raw = Callable[["Drain", Session, Bench], Awaitable[None]]


@dataclass(frozen=True)
class Drain:
    """A kind of backlog, and how to drain it."""

    what: str
    table: str
    rows: int
    type: str = "bench.noop"
    size: int = SMALL
    workers: int = 1
    calls_a_row: int = 1
    tables: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    # SQL for the ordering keys of commands, from `n`.
    key: str = "null"
    program: tuple[str, ...] = INBOXD

    async def fill(self, connection: asyncpg.Connection) -> None:
        """Insert the backlog into the table."""
        if self.table == "events":
            await fill_events(connection, self.rows, self.type, self.size)
        else:
            await fill_commands(connection, self.rows, self.type, self.size, self.key)

    async def measure(self, bench: Bench) -> Run:
        """Drain the backlog by workers."""
        async with bench.fresh() as connection:
            await self.fill(connection)
            held = bench.held_daemons(self.workers, self.settings, self.program)
            async with held as (daemons, release):
                server, worker = bench.server_seconds(), sum(seconds(d.pid) for d in daemons)
                await release()
                await called(daemons, self.rows * self.calls_a_row)
                tables = self.tables or (self.table,)
                ended = await emptied(connection, *(f"inboxd.{table}" for table in tables))
                server = bench.server_seconds() - server
                worker = sum(seconds(d.pid) for d in daemons) - worker
            first = min(d.marks.first for d in daemons if d.marks.calls)
            await self._check(connection)
        each = 1e6 / self.rows
        return Run(self.rows / (ended - first), worker * each, server * each)

    async def _check(self, connection: asyncpg.Connection) -> None:
        done = await connection.fetchval(
            f"select count(*) from inboxd.{self.table}_history where status = 'succeeded'"
        )
        if done != self.rows:
            raise SystemExit(f"{self.what}: {done} of {self.rows} rows succeeded")

    async def measure_raw(self, raw: Raw, bench: Bench) -> Run:
        """Drain the backlog by the statements alone."""
        async with bench.fresh() as connection:
            await self.fill(connection)
            server, started = bench.server_seconds(), time.perf_counter()
            await raw(self, Session(connection, SQL), bench)
            took, server = time.perf_counter() - started, bench.server_seconds() - server
            await self._check(connection)
        return Run(self.rows / took, None, server * 1e6 / self.rows)


async def raw_events(drain: Drain, session: Session, _bench: Bench) -> None:
    """The event processor's statements, without a processor."""
    me, done, lane = uuid4(), 0, Lane(("default", drain.type))
    while done < drain.rows:
        async with session.transaction():
            page = await events.claim(session, [lane], EVENTS.page_rows)
            for portion in bodies.portions(page, EVENTS.page_bytes):
                await bodies.read(session, portion)
            if drain.type == "bench.keep":
                await commands.insert(session, [_child(row) for row in page])
            await events.settle(session, [(row["id"], 0.0) for row in page], me)
        lane.advance(page[-1]["run_at"], page[-1]["id"])
        done += len(page)


def _child(row: ClaimedEvent) -> tuple[CommandDraft, Parent]:
    draft = CommandDraft(uuid7(), "bench.kept", row["payload"] or "null", queue="kept")
    return draft, Parent("event", row["id"], Lineage(None, row["event_id"], None))


async def raw_commands(drain: Drain, session: Session, _bench: Bench) -> None:
    """The command processor's statements, without a processor."""
    me, done, lane = await _join(session), 0, Lane(("default", drain.type, 0))
    while done < drain.rows:
        page = await _claim(session, me, lane)
        ended = [Settlement(row["id"], row["fence"], "succeeded", 0.0, None) for row in page]
        await commands.settle(session, me.id, ended)
        done += len(page)


async def raw_own(drain: Drain, session: Session, bench: Bench) -> None:
    """A transaction for each command, its insert and its settlement, on eight connections."""
    me, lane = await _join(session), Lane(("default", drain.type, 0))
    claimed: asyncio.Queue[ClaimedCommand | None] = asyncio.Queue(2 * COMMANDS.page_rows)

    async def settle() -> None:
        own = Session(await bench.connect(), SQL)
        while row := await claimed.get():
            await own.connection.execute("begin")
            await own.connection.execute(
                "insert into ledger (n, note) values ($1, $2)", row["id"], "done"
            )
            ended = Settlement(row["id"], row["fence"], "succeeded", 0.0, None)
            await commands.settle_own(own, me.id, ended, "COMMIT")
        await own.connection.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(settle())
        done = 0
        while done < drain.rows:
            page = await _claim(session, me, lane)
            for row in page:
                await claimed.put(row)
            done += len(page)
        for _ in range(8):
            await claimed.put(None)


async def _join(session: Session) -> workers.WorkerIdentity:
    me = workers.WorkerIdentity(uuid4(), "raw", "raw", 1, "0", (), (), (), "")
    await workers.join(session, me)
    return me


async def _claim(session: Session, me: workers.WorkerIdentity, lane: Lane) -> list[ClaimedCommand]:
    rows = COMMANDS.page_rows
    page = await commands.claim(session, me.id, {"default": rows}, [lane], rows)
    lane.advance(page[-1]["run_at"], page[-1]["id"])
    return page


def drains(bench: Bench) -> list[Drain]:
    """The backlogs that one worker drains; `profiles` and `wal` use the same."""
    rows, fewer = bench.rows, max(1, bench.rows // 5)
    keep = {"WORKER__QUEUES": "default"}
    return [
        Drain("no-op events", "events", rows),
        Drain("no-op events of 8 KB", "events", fewer, size=LARGE),
        Drain("events that each send one command", "events", rows, "bench.keep", settings=keep),
        Drain("no-op commands", "commands", rows),
        Drain("no-op commands of 8 KB", "commands", fewer, size=LARGE),
        Drain("commands with one insert", "commands", fewer, "bench.insert"),
    ]


RAW: dict[str, Raw] = {"bench.insert": raw_own}
TARGETS = (
    Target(60_000, 0.7),
    Target(15_000),
    Target(35_000),
    Target(40_000),
    None,
    Target(7_000),
)


def of_one_worker(bench: Bench) -> Iterator[Comparison]:
    """One worker compared with raw SQL; then events that emit events or send commands."""
    for drain, target in zip(drains(bench), TARGETS, strict=True):
        raw = RAW.get(drain.type, raw_events if drain.table == "events" else raw_commands)
        other = partial(drain.measure_raw, raw, bench)
        yield Comparison(drain.what, partial(drain.measure, bench), target, "raw SQL", other)
    what = "events that each emit one event"
    emit = Drain(
        what, "events", bench.rows, "bench.emit", tables=("events where type = 'bench.emit'",)
    )
    sending = replace(emit, type="bench.keep", settings={"WORKER__QUEUES": "default"})
    other = partial(replace(sending, tables=()).measure, bench)
    yield Comparison(what, partial(emit.measure, bench), None, "a command in its place", other)
    what = "events that each send one command, with the commands"
    tables = ("events", "commands")
    send = Drain(what, "events", bench.rows, "bench.send", calls_a_row=2, tables=tables)
    yield Comparison(what, partial(send.measure, bench))


def of_two_workers(bench: Bench) -> Iterator[Comparison]:
    """Two workers that start together, compared with one."""
    for table in ("events", "commands"):
        one = Drain(table, table, 2 * bench.rows)
        two = replace(one, workers=2)
        measure, other = partial(two.measure, bench), partial(one.measure, bench)
        yield Comparison(
            f"no-op {table}, two workers", measure, Target(share=1.3), "one worker", other
        )


# These limits are never reached: they show what checking a limit costs.
TOTAL = {"QUEUES": '{"default": {"total_concurrency": 1000}}'}
RATE = {"QUEUES": '{"default": {"rate": "1000000/s"}}'}
BREAKER = {"QUEUES": '{"default": {"breaker": "bench"}}'}
PAIRS = {"QUEUES": '{"default": {"key_concurrency": 2}}'}


def of_queues(bench: Bench) -> Iterator[Comparison]:
    """Ordering keys, total limits and a breaker, compared with the same commands without them."""
    plain = Drain("no-op commands", "commands", bench.rows)
    keyed = replace(plain, key="'key ' || n % 1000")
    for drain in (
        replace(plain, what="no-op commands of a queue with a total concurrency", settings=TOTAL),
        replace(plain, what="no-op commands of a queue with a rate", settings=RATE),
        replace(plain, what="no-op commands of a queue with a closed breaker", settings=BREAKER),
        replace(keyed, what="no-op commands of 1,000 ordering keys"),
        replace(keyed, what="no-op commands of 1,000 ordering keys, two workers", workers=2),
        replace(keyed, what="no-op commands of 1,000 ordering keys, two at once", settings=PAIRS),
        replace(plain, what="no-op commands of one ordering key", key="'key'"),
    ):
        other = replace(plain, workers=drain.workers)
        measure, beside = partial(drain.measure, bench), partial(other.measure, bench)
        yield Comparison(drain.what, measure, Target(share=0.75), "without", beside)


def smaller_pages(bench: Bench) -> Iterator[Comparison]:
    """Pages of fewer rows, compared with pages of the default size."""
    for table, name, page_rows, share in (
        ("events", "one a page", 1, 20),
        ("commands", "one a page", 1, 20),
        ("commands", "100 a page", 100, 1),
    ):
        default = Drain(table, table, bench.rows)
        page = {f"{table.upper()}__PAGE_ROWS": str(page_rows)}
        smaller = replace(default, rows=max(1, bench.rows // share), settings=page)
        measure, other = partial(smaller.measure, bench), partial(default.measure, bench)
        yield Comparison(f"no-op {table}, {name}", measure, None, "by default", other)


def figures(bench: Bench) -> AsyncIterator[Line]:
    """One line for each kind of backlog."""
    return bench.compare(
        chain(of_one_worker(bench), of_two_workers(bench), of_queues(bench), smaller_pages(bench))
    )


if __name__ == "__main__":
    main(figures, __doc__)
