"""A row and its conditions: how each comes and goes, and whether a claim takes the row.

    async with world_of(database) as world:
        await world.begin("commands")
        await world.set("run_at = now() + interval '1 hour'")
        assert (await world.why(), await world.is_claimed()) == (["due"], False)

Promises to decide by real parts: the tables, the statements of claims, and the questions of a
worker before them (`Admission`, `Controls`, `Breakers`, `SequentialSource`); a claim is rolled
back.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import orjson

from inboxd import Event, EventChunk, EventContext, Handlers, operations
from inboxd.api.context import CommandContext
from inboxd.commands.admission import Admission
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.horizon import HorizonReader
from inboxd.events.sources.sequential import SequentialSource
from inboxd.events.sources.single import SingleSource
from inboxd.events.sources.source import look
from inboxd.model.lane import Lane
from inboxd.model.waiting import TEXTS
from inboxd.registry.plugins import build_registry
from inboxd.registry.registry import Registry
from inboxd.resilience.breaker import WrittenBreaker
from inboxd.settings import Queue, Settings
from inboxd.store import breakers, chunks, commands, controls, limits, topics, workers
from inboxd.store.connections import Connection
from inboxd.store.limits import Wanted
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import daemon_session

QUEUE, TYPE, KEY = "q", "t", "k"
# Another type that the worker serves.
ANOTHER = "u"
_CLEAR = """
delete from inboxd.events; delete from inboxd.commands; delete from inboxd.batches;
delete from inboxd.dependencies; delete from inboxd.batch_progress; delete from inboxd.controls;
delete from inboxd.limits; delete from inboxd.intakes; delete from inboxd.endpoints;
delete from inboxd.relay_leases; update inboxd.leases set holder = null;
update inboxd.breakers set mode = 'auto', state = 'closed', open_until = null, probe_by = null,
       probe_until = null, version = version + 1;
"""


def _plugin() -> Handlers:
    handlers = Handlers("waiting")
    handlers.topic("lane", total_concurrency=1)
    handlers.topic("lined", mode="sequential", key="/k", total_concurrency=1)
    handlers.topic("chunked", mode="batch", key="/k", count=2, age="1h", total_concurrency=1)

    @handlers.command(TYPE, queue=QUEUE, breaker="target")
    async def run(command: dict[str, Any], ctx: CommandContext) -> None: ...

    @handlers.command(ANOTHER, queue=QUEUE, breaker="another")
    async def run_another(command: dict[str, Any], ctx: CommandContext) -> None: ...

    @handlers.event(ANOTHER, topic="lined", breaker="another")
    async def another(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.event(TYPE, topic="lane", breaker="target")
    async def one(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.event(TYPE, topic="lined", breaker="target")
    async def other(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...

    @handlers.chunk(TYPE, ANOTHER, topic="chunked", breaker="target")
    async def together(events: EventChunk[dict[str, Any]], ctx: EventContext) -> None: ...

    return handlers


REGISTRY = build_registry([("waiting 1", _plugin())])
NOBODYS = build_registry([("nothing 1", Handlers("nothing"))])


@dataclass(slots=True)
class World:
    """One row of a database, a worker that would claim it, and settings that a test may change."""

    session: Session
    other: Session
    me: workers.WorkerIdentity
    table: str = "commands"
    id: int = 0
    queue: Queue = field(default_factory=Queue)
    # settings of other queues
    queues: dict[str, Queue] = field(default_factory=dict)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def connection(self) -> Connection:
        return self.session.connection

    @property
    def settings(self) -> Settings:
        queues: Any = {**self.queues, QUEUE: self.queue}
        return Settings(database={"dsn": "postgresql:///x"}, queues=queues)  # type: ignore[arg-type]

    async def begin(self, table: str, **columns: object) -> None:
        """Delete all rows but this one, which no condition holds."""
        await self.stack.aclose()
        await self.connection.execute(_CLEAR)
        await self.connection.execute(
            "update inboxd.workers set state = 'running', in_flight = 0, events_in_flight = 0,"
            " commands = $2, subscriptions = $3 where id = $1",
            self.me.id,
            list(self.me.commands),
            [f"{topic}\n{type_}" for topic, type_ in self.me.subscriptions],
        )
        self.table, self.queue, self.queues = table, Queue(), {}
        self.id = await self.write(**columns)

    async def write(self, **columns: object) -> int:
        """Insert a row into the table; returns its id."""
        lane = {"queue": QUEUE} if self.table == "commands" else {"topic": "lane"}
        given: dict[str, object] = {**lane, "type": TYPE, **columns}
        names = ", ".join(given)
        places = ", ".join(f"${n}" for n in range(1, 1 + len(given)))
        found: int = await self.connection.fetchval(
            f"insert into inboxd.{self.table} ({names}) values ({places}) returning id",
            *given.values(),
        )
        return found

    async def set(self, what: str, id: int | None = None) -> None:
        """Change the row, or another one."""
        await self.connection.execute(
            f"update inboxd.{self.table} set {what} where id = $1", self.id if id is None else id
        )

    async def why(self) -> list[str]:
        """The causes that hold it, by the names of their texts."""
        found = await self.document()
        assert found["sentence"], "the answer is empty"
        texts = {text: name for name, text in TEXTS.items()}
        return [texts[each["text"]] for each in found["causes"]]

    async def document(self) -> dict[str, Any]:
        """The whole answer, with its facts."""
        table: Any = self.table
        found = await operations.why(self.session, self.settings, table, self.id)
        orjson.dumps(found)
        return found

    # ------------------------------------------------------------------------------- the oracle

    async def is_claimed(self) -> bool:
        """Whether the next claim takes the row; the claim is rolled back."""
        transaction = self.session.transaction()
        await transaction.start()
        try:
            if self.table == "commands":
                return await self._claims_command()
            return await self._claims_event()
        finally:
            await transaction.rollback()

    async def parts(self) -> Any:
        """The parts of a worker with its present knowledge."""
        served = await self.connection.fetchrow(
            "select commands, in_flight from inboxd.workers where id = $1",
            self.me.id,
        )
        assert served is not None
        registry: Registry = REGISTRY if TYPE in served["commands"] else NOBODYS
        metrics = MagicMock()
        known = Breakers(REGISTRY, metrics, lambda: None)
        written = await breakers.read(self.session, self.me.id)
        for name, breaker in known.by_name.items():
            breaker.learn(written.get(name) or WrittenBreaker(), 0.0)
        known.look()
        obeyed = Controls(lambda: None, known)
        rows = await controls.read(self.session)
        obeyed.paused = frozenset((row["kind"], row["name"]) for row in rows)
        parts = MagicMock(settings=self.settings, registry=registry, metrics=metrics)
        parts.controls, parts.breakers, parts.me = obeyed, known, self.me
        parts.fleet.peers = 0
        parts.queues.by_name = self.settings.all_queues
        parts.in_flight = served["in_flight"]
        return parts

    async def _claims_command(self) -> bool:
        if await self._is_alone():
            return False
        parts = await self.parts()
        admission = Admission(
            parts.settings, parts.queues.by_name, parts.registry, parts.controls, parts.breakers
        )
        admission.in_flight = parts.in_flight
        running = await self.connection.fetchval(
            "select count(*) from inboxd.commands where worker_id = $1", self.me.id
        )
        admission._leased[QUEUE] = running
        if not admission.serves(QUEUE, TYPE) or admission.startable <= 0:
            return False
        if (room := admission.room(QUEUE)) <= 0:
            return False
        lane = Lane((QUEUE, TYPE, 0))
        key = await self.connection.fetchval(
            "select ordering_key from inboxd.commands where id = $1", self.id
        )
        if key is None and QUEUE not in admission.limited:
            rows = await commands.claim(
                self.session, self.me.id, {QUEUE: room}, [lane], min(room, 100)
            )
            return self.id in [row["id"] for row in rows]
        types = admission.types(QUEUE)
        wanted = Wanted(room, types, [lane], keys=[key] if key else (), share=10)
        bounds = admission.bounds(QUEUE)
        claimed = await limits.claim(self.session, self.me.id, QUEUE, bounds, wanted)
        return self.id in [row["id"] for row in claimed.rows]

    async def _is_alone(self) -> bool:
        """Whether the worker runs a suspect alone: then its page ends before other claims."""
        return bool(
            await self.connection.fetchval(
                "select exists (select from inboxd.leases where name = 'alone' and holder = $1)"
                " or exists (select from inboxd.commands where worker_id = $1"
                " and status = 'running' and alone_fence = fence)",
                self.me.id,
            )
        )

    async def _claims_event(self) -> bool:
        if await self._is_alone():
            return False
        parts = await self.parts()
        row = await self.connection.fetchrow(
            "select topic, position from inboxd.events where id = $1", self.id
        )
        assert row is not None
        state = await self.connection.fetchval(
            "select state from inboxd.workers where id = $1", self.me.id
        )
        if state != "running":
            return False
        reader = HorizonReader(parts.metrics)
        await reader.read(self.session)
        await reader.read(self.session)
        looked = await look(self.session, reader)
        if row["topic"] == "chunked":
            cursors = ChunkCursors(parts.controls)
            if not all(map(cursors.allows, parts.registry.chunks.values())):
                return False
            return bool(await chunks.open_lines(self.session, "chunked", [KEY], 10))
        source: Any = (
            SingleSource(parts) if row["topic"] == "lane" else SequentialSource(parts, reader)
        )
        await source.survey(self.session, looked)
        claim = await source.claim(self.session, 100)
        rows = [] if claim is None else claim.rows
        return any(
            each["id"] == self.id and (claim.order is None or claim.order.may_run(each))
            for each in rows
        )


@asynccontextmanager
async def world_of(database: Database) -> AsyncIterator[World]:
    """A world with a worker that has joined."""
    async with daemon_session(database) as session, daemon_session(database) as other:
        me = workers.WorkerIdentity(
            *(uuid4(), "w-1", "host", 1, "0", (TYPE,), (TYPE, ANOTHER), (), "same"),
            subscriptions=tuple(REGISTRY.subscriptions),
        )
        await workers.join(session, me)
        await topics.declare(session, REGISTRY.topics.values(), REGISTRY.subscriptions)
        await breakers.declare(session, REGISTRY.breaker_uses)
        world = World(session, other, me)
        try:
            yield world
        finally:
            await world.stack.aclose()


Step = Callable[[World], Awaitable[object]]
