"""The real side: a database, the product's own statements, and workers' sessions on it.

Owns the event loop for the synchronous state machine, the sessions that stay open between steps,
and the reading of all rows. Promises that every write to inboxd's tables uses the product's own
functions, except two: producers' plain INSERT, and the step of the clock.

The clock: the product compares times with the database's now(), which a test cannot move. But a
clock that steps forward by an hour is equal to a clock that stands still while all stored times, of
rows and cursors, move back by an hour: no statement can see the difference.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID, uuid4

import uvloop

from inboxd.model.lane import BEGINNING, Lanes
from inboxd.settings import Database as Settings
from inboxd.store import commands, events, workers
from inboxd.store.connections import Row
from inboxd.store.pools import Pool, open_pool
from inboxd.store.rows import ClaimedCommand, ClaimedEvent
from inboxd.store.session import Session, connect
from tests.machine.model import HOUR, Item, Key, Query
from tests.support import Database

T = TypeVar("T")

SEATS = 3
_TABLES = ("events", "commands")

_EVENTS = """
    select {settled} as settled, 'events' as name, id, array[topic, type] as lane, run_at, status,
           attempts, crashes, null::smallint as lone, null::uuid as "group", 0::bigint as fence,
           {worker} as worker, false as cancel_requested,
           jsonb_array_length(coalesce(errors, '[]')) as errors from inboxd.events{of}"""
_COMMANDS = """
    select {settled}, 'commands', id, array[queue, type, priority::text], run_at, status, attempts,
           crashes, {lone}, {group}, fence, worker_id, cancel_requested,
           jsonb_array_length(coalesce(errors, '[]')) from inboxd.commands{of}"""
_ROWS = " union all ".join(
    each.format(settled=settled, worker=worker, of=of, lone=lone, group=group)
    for each in (_EVENTS, _COMMANDS)
    for settled, worker, of, lone, group in (
        ("false", "null::uuid", "", "lone_crashes", "suspect_group"),
        ("true", "worker_id", "_history", "null", "null"),
    )
)
_REST = """
    select clock_timestamp(),
           array(select (id, state) from inboxd.workers), array(select (id, fence) from ledger)"""


@dataclass(frozen=True, slots=True)
class Claim:
    """A command that a worker once claimed, and may settle at any time: the fence decides."""

    row: ClaimedCommand
    worker: UUID


@dataclass(slots=True)
class Worker:
    """A worker process: its sessions, its cursors, and its open work."""

    id: UUID
    pages: Session
    claims: Session
    event_lanes: Lanes = field(default_factory=Lanes)
    command_lanes: Lanes = field(default_factory=Lanes)
    page: list[ClaimedEvent] | None = None  # events of its open transaction
    page_lanes: list[Any] = field(default_factory=list)
    alone: ClaimedEvent | None = None  # an event whose crash was counted beforehand
    leasing: Sequence[ClaimedCommand] | None = None  # a claim that has not committed
    by_itself: bool = False  # that claim is of a suspect that runs alone

    @property
    def is_idle(self) -> bool:
        """Whether it has no open transaction."""
        return self.page is None and self.leasing is None


class Site:
    """One database for all examples, emptied between them."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._settings = Settings.model_validate({"dsn": database.dsn, "lock_timeout": "2s"})
        self._stack = AsyncExitStack()

    def run(self, work: Awaitable[T]) -> T:
        """Run the work of a step to its end."""

        async def waited() -> T:
            return await work

        return self._runner.run(waited())

    async def open(self) -> None:
        """Open all connections that outlive an example."""
        self.pool: Pool = await self._stack.enter_async_context(
            open_pool(self._settings, "test", 2)
        )
        self.seats = [(await self._connect(), await self._connect()) for _ in range(SEATS)]
        self.work = await self._connect()
        self.look = await self._connect()
        self.operator = await self._connect()
        # Three days' partitions suffice, and make reading and emptying faster.
        unneeded = await self.work.connection.fetch(
            "select inhrelid::regclass::text as name from pg_inherits where"
            " right(inhrelid::regclass::text, 8) > to_char(now() + interval '1 day', 'YYYYMMDD')"
            " and inhparent::regclass::text like '%history'"
        )
        for row in unneeded:
            await self.work.connection.execute(f"drop table {row['name']}")
        await self.work.connection.execute(
            "create table ledger (id bigint, fence bigint, primary key (id, fence))"
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def _connect(self) -> Session:
        session = await connect(self._settings, "test")
        self._stack.callback(session.connection.terminate)
        return session

    async def empty(self) -> None:
        """Begin an example. DELETE, since TRUNCATE of that many partitions takes much longer."""
        for session in (self.work, self.operator, *sum(self.seats, ())):
            await session.connection.execute("ROLLBACK")
        for table in (*_TABLES, "events_history", "commands_history", "workers", "audit"):
            await self.work.connection.execute(f"delete from inboxd.{table}")
        await self.work.connection.execute("delete from ledger")

    async def join(self, seat: int) -> Worker:
        """Start a worker process on a free seat."""
        me = workers.WorkerIdentity(uuid4(), f"seat {seat}", "host", 1, "0", (), (), (), "same")
        await workers.join(self.work, me)
        return Worker(me.id, *self.seats[seat])

    async def step_clock(self, staff: Sequence[Worker], hours: int) -> None:
        """Move all stored times; see the module's head."""
        for table in _TABLES:
            await self.work.connection.execute(
                f"update inboxd.{table} set run_at = run_at - $1::interval", hours * HOUR
            )
        for worker in staff:
            for lane in (*worker.event_lanes.ordered(), *worker.command_lanes.ordered()):
                if lane.after_at != BEGINNING:
                    lane.advance(lane.after_at - hours * 3600, lane.after_id)

    async def sweep(self, worker: Worker) -> dict[str, list[Any]]:
        """Survey both tables, and rewind the cursors as the processors do; return the sightings."""
        seen = {
            "events": await events.survey(self.work),
            "commands": await commands.survey(self.work),
        }
        worker.event_lanes.sweep(seen["events"])
        worker.command_lanes.sweep([s for s in seen["commands"] if s.key[2] is not None])
        return {table: list(sightings) for table, sightings in seen.items()}

    # ------------------------------------------------------------------------------- reading

    async def rows(self) -> list[Row]:
        """All rows of both tables and their histories; see `item_of`."""
        return await self.look.connection.fetch(_ROWS)

    async def rest(self) -> tuple[datetime, dict[UUID, str], set[tuple[int, int]]]:
        """The database's clock, the workers' states, the handlers' effects by id and fence."""
        row = await self.look.connection.fetchrow(_REST)
        assert row is not None
        return row[0], {w[0]: w[1] for w in row[1]}, {(e[0], e[1]) for e in row[2]}


def item_of(row: Row) -> Item:
    """The row as an Item of the model."""
    queue, type_, *priority = row["lane"]
    lane: Key = (queue, type_, *map(int, priority))
    columns = ("status", "attempts", "crashes", "fence", "worker", "cancel_requested", "errors")
    values = {name: row[name] for name in (*columns, "lone", "group")}
    return Item(row["id"], lane, row["run_at"], settled=row["settled"], about=False, **values)


def query_of(lanes: Sequence[Any], most: int, room: dict[str, int] | None = None) -> Query:
    """The claim as a Query of the model."""
    places = [
        (lane.key, (datetime.fromtimestamp(lane.after_at, UTC), lane.after_id)) for lane in lanes
    ]
    return Query(places, most, room)


@contextmanager
def open_site(database: Database) -> Iterator[Site]:
    """A site for one test."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        site = Site(database, runner)
        site.run(site.open())
        try:
            yield site
        finally:
            site.run(site.close())
