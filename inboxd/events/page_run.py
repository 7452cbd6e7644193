"""The run of a page's events: each through its handlers, and what then has to be written.

Owns what happens between claimed events and the statements that settle them. Promises (promise 2)
that an event's failure is undone by its savepoint and costs the others nothing, and that an event
which ends the page's connection, or its transaction, is known by name. Known limit: the handlers of
one page run one after the other; slow work is a command.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from inboxd.api.connection import BlockingConnection
from inboxd.api.context import EventContext
from inboxd.api.drafts import CommandDraft, EventDraft
from inboxd.api.groups import Plan
from inboxd.api.messages import Event
from inboxd.api.payload import decode, wrap_event
from inboxd.api.records import EventHandler
from inboxd.engine import telling
from inboxd.engine.execution import Breath, Task
from inboxd.engine.outcomes import is_ours, name, setback, site_of
from inboxd.engine.parts import Parts
from inboxd.engine.versions import FOR_ANOTHER, Versions
from inboxd.errors import InboxdError
from inboxd.events.page_order import PageOrder
from inboxd.model.backoff import Policy
from inboxd.model.lineage import Lineage, child_of
from inboxd.model.outcome import Dead, Outcome, Succeeded, Unsuccessful, decide, failure_of
from inboxd.store import batches, bodies, emitted, events, lines, wakeups
from inboxd.store.batches import Planned
from inboxd.store.commands import Parent
from inboxd.store.connections import Connection, Row
from inboxd.store.handler_connection import PageSavepoint
from inboxd.telemetry.logs import bound, get_logger

_handler_log = get_logger("inboxd.handler")


class Spoiled(InboxdError):
    """A page did not commit because of one event."""

    def __init__(self, row: Row, handler: EventHandler | None, error: BaseException) -> None:
        super().__init__(str(error))
        self.row = row
        self.handler = handler
        self.error = error


@dataclass(slots=True)
class Results:
    """What a page has to write, and what it has counted; spoiled: by whom, if it is known."""

    done: list[tuple[int, float]] = field(default_factory=list)
    setbacks: list[events.Setback] = field(default_factory=list)
    sent: list[tuple[CommandDraft, Parent]] = field(default_factory=list)
    emitted: list[tuple[EventDraft, Parent]] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    # Batches to fold once the page has committed.
    fold: list[int] = field(default_factory=list)
    counts: list[tuple[str, Outcome, float, float]] = field(default_factory=list)
    spoiled: Spoiled | None = None
    # Of events in lines: which lines stand still, and what is filed for that.
    order: PageOrder | None = None
    # What is said in the log once the page has committed; tells: whether of single events.
    tells: bool = False
    told: list[Callable[[], None]] = field(default_factory=list)
    # Events that were run, or left where they are for those before them.
    met: int = 0

    def sizes(self) -> tuple[int, int, int]:
        """How much there is to write that handlers sent: commands, events, plans."""
        return len(self.sent), len(self.emitted), len(self.planned)

    def cut(self, sizes: tuple[int, int, int]) -> None:
        """Forget what was sent since these were the sizes."""
        sent, emitted, planned = sizes
        del self.sent[sent:], self.emitted[emitted:], self.planned[planned:]


@dataclass(slots=True)
class Outgoing:
    """What the handlers of one row sent; nothing of it is written unless all of them end well."""

    drafts: list[CommandDraft] = field(default_factory=list)
    events: list[EventDraft] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def __len__(self) -> int:
        """How many commands and events."""
        return len(self.drafts) + len(self.events)

    def note(self, parent: Parent, results: Results) -> None:
        """It is to be written, as what `parent` brought about."""
        results.sent += [(draft, parent) for draft in self.drafts]
        results.emitted += [(draft, parent) for draft in self.events]
        results.planned += [Planned(plan, parent) for plan in self.plans]


class Alone(Protocol):
    """Runs an event of a batch topic as a list of one."""

    async def alone(
        self,
        task: Task,
        connection: Connection,
        row: Row,
        payloads: Mapping[int, str],
        results: Results,
    ) -> None:
        """Run it, and note what has to be written. Raises Spoiled."""


class PageRun:
    """Runs the events of pages."""

    def __init__(self, parts: Parts) -> None:
        """Run events with the plugins of `parts`."""
        self._parts = parts
        self.limits = parts.settings.events
        # Some event was left to another worker, which should have the first go at its lane now.
        self.stepped_aside = False
        self._versions = Versions(parts)
        # Runs what batch topics have in lanes: retries, replays, each a list of one.
        self.lists: Alone | None = None

    async def run(self, connection: Connection, rows: Sequence[Row], results: Results) -> None:
        """Run events until the page's time, or its room for what they send, is spent.

        What may not run yet, in a line, is passed over and noted.

        A change of the controls ends it too: what is paused now is not begun.
        """
        controls = self._parts.controls
        version = controls.version
        ends = time.monotonic() + self.limits.page_time.total_seconds()
        breath, task = Breath(), asyncio.current_task()
        starts_are_told, results.tells = telling.tells_starts(), telling.tells_ends()
        for portion in bodies.portions(rows, self.limits.page_bytes):
            payloads = await bodies.read(connection, self._parts.sql, portion)
            for row in await bodies.complete(connection, self._parts.sql, portion):
                results.met += 1
                if results.order is not None and not results.order.may_run(row):
                    continue
                raw = row["payload"] if row["body_id"] is None else payloads.get(row["body_id"])
                if starts_are_told:
                    telling.event_starts(row)
                await self._run_one(task, connection, row, raw, results)
                await breath.take()
                if (
                    len(results.sent) + len(results.emitted) >= self.limits.page_commands
                    or time.monotonic() > ends
                    or controls.version != version
                ):
                    return

    async def _run_one(
        self, task: Task, connection: Connection, row: Row, raw: str | None, results: Results
    ) -> None:
        if self.lists is not None and row["topic"] in self._parts.registry.lists:
            payloads = {} if row["body_id"] is None or raw is None else {row["body_id"]: raw}
            await self.lists.alone(task, connection, row, payloads, results)
            return
        started = time.monotonic()
        savepoint = PageSavepoint(connection, self._parts.pool.preamble)
        sent = Outgoing()
        outcome: Outcome = Succeeded()
        handler: EventHandler | None = None
        try:
            for handler in self._parts.registry.handlers_of(row["topic"], row["type"]):
                await self._handle(
                    task, handler, row, "null" if raw is None else raw, savepoint, sent
                )
            await savepoint.keep()
        except BaseException as error:
            if is_ours(error):
                await savepoint.abandon()
                raise
            await savepoint.undo()
            if savepoint.broken:
                # Remembered: the driver raises an error of its own when the transaction is left.
                results.spoiled = Spoiled(row, handler, error)
                raise results.spoiled from error
            if connection.is_closed():
                raise
            outcome = self.judge(error, row, handler)
        seconds = time.monotonic() - started
        results.counts.append((row["type"], outcome, seconds, row["waited"]))
        if isinstance(outcome, Succeeded):
            results.done.append((row["id"], seconds))
            if sent.drafts or sent.events or sent.plans:
                sent.note(_parent(row), results)
            if results.tells:
                told = partial(telling.event_succeeded, row, seconds, len(sent))
                results.told.append(told)
        else:
            self.set_back(row, outcome, results)

    def set_back(self, row: Row, outcome: Unsuccessful, results: Results) -> None:
        """Note what becomes of an event that did not succeed, and of the line that it is in."""
        results.setbacks.append(setback(outcome, row, self._parts.me))
        if results.order is not None:
            results.order.set_back(row, dead=isinstance(outcome, Dead))

    async def _handle(
        self,
        task: Task,
        handler: EventHandler,
        row: Row,
        raw: str,
        savepoint: PageSavepoint,
        sent: Outgoing,
    ) -> None:
        registry = self._parts.registry
        if handler.command_type is not None:
            sent.drafts.append(wrap_event(registry.command_of(handler), row, raw))
            return
        event = Event(row, decode(handler, raw, row["schema_version"]))
        lend: Callable[[], Any] = savepoint.lend
        if handler.executor == "thread":
            lend = lambda: BlockingConnection(savepoint.lend())  # noqa: E731 - as short as its name
        context = EventContext(row, lend, registry, _handler_log)
        limit = handler.timeout or self.limits.timeout.total_seconds()
        with bound(
            event_id=row["event_id"], correlation_id=row["correlation_id"] or row["event_id"]
        ):
            try:
                await self._parts.executions.run(
                    task, "event", row["id"], handler, event, context, limit
                )
                plan = context.plan()
                if plan is not None:
                    sent.plans.append(plan)
                sent.drafts += context.drafts
                sent.events += context.events
            finally:
                context.close()

    def policy(self, topic: str, handler: EventHandler | None) -> Policy:
        """The rule of a handler, or of its topic, or the one for all."""
        declared = self._parts.registry.topics.get(topic)
        return (handler and handler.retry) or (declared and declared.retry) or self._parts.policy

    def judge(self, error: BaseException, row: Row, handler: EventHandler | None) -> Unsuccessful:
        """What follows from an error, by the handler's own rule."""
        policy = self.policy(row["topic"], handler)
        if self._versions.are_anothers(error, row["id"]):
            error, self.stepped_aside = FOR_ANOTHER, True
        age, site = timedelta(seconds=row["age"]), site_of(row, handler)
        outcome = decide(error, policy, row["attempts"], age, site=site)
        kind = failure_of(outcome, error).kind
        self._parts.metrics.tally.fail("event", row["type"], kind)
        telling.did_not_succeed("event", row, outcome, error, site.package)
        return outcome

    async def write(self, connection: Connection, results: Results) -> None:
        """Insert what the handlers sent, and settle: a fixed number of statements.

        Rows of lines come last: what steps aside or is filed then finds its line as it will be.
        """
        started = time.monotonic()
        sql, me = self._parts.sql, self._parts.me.id
        if results.sent or results.planned:
            results.fold += await batches.write(connection, sql, results.sent, results.planned)
        if results.done:
            await events.settle(connection, sql, results.done, me)
        if results.setbacks:
            await events.set_back(connection, sql, results.setbacks)
        order = results.order
        if order is not None and order.aside:
            await lines.step_aside(connection, sql, order.aside)
        if order is not None and order.filed:
            await lines.file(connection, sql, order.filed)
        if results.emitted:  # last: who waits for its keys, or for its place in lines, waits less
            await emitted.write(connection, sql, results.emitted)
        left = results.setbacks or (order is not None and order.lines)
        if left and self._parts.fleet.differs:  # some may wait for who can read or run them
            await wakeups.notify(connection, sql, "events")
        self._parts.metrics.settle_seconds.labels("event").observe(time.monotonic() - started)

    def count(self, results: Results) -> None:
        """Count a page that has committed."""
        tally = self._parts.metrics.tally
        for type_, outcome, seconds, waited in results.counts:
            tally.add("event", type_, name(outcome), seconds, waited)
        tally.fold()
        for batch in results.fold:
            self._parts.folder.note(batch)
        for say in results.told:
            say()


def _parent(row: Row) -> Parent:
    lineage = Lineage(row["correlation_id"], row["causation_id"], row["traceparent"])
    return Parent("event", row["id"], child_of(lineage, row["event_id"]))
