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
from typing import Any, Protocol

from inboxd.api.connection import BlockingConnection
from inboxd.api.context import EventContext
from inboxd.api.drafts import CommandDraft
from inboxd.api.groups import Plan
from inboxd.api.messages import Event
from inboxd.api.payload import decode, wrap_event
from inboxd.api.records import EventHandler
from inboxd.errors import InboxdError
from inboxd.model.backoff import Policy
from inboxd.model.lineage import Lineage, child_of
from inboxd.model.outcome import Dead, Outcome, Succeeded, Unsuccessful, decide, explain
from inboxd.runtime.execution import Breath, Task
from inboxd.runtime.outcomes import is_ours, name, setback, site_of
from inboxd.runtime.parts import Parts
from inboxd.runtime.standing import Standing
from inboxd.runtime.versions import FOR_ANOTHER, Versions
from inboxd.store import batches, bodies, events, lines, wakeups
from inboxd.store.batches import Planned
from inboxd.store.commands import Parent
from inboxd.store.connections import Connection, Row
from inboxd.store.handler_connection import PageSavepoint
from inboxd.telemetry.logs import bound, get_logger

_log = get_logger(__name__)
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
    planned: list[Planned] = field(default_factory=list)
    # Batches to fold once the page has committed.
    fold: list[int] = field(default_factory=list)
    counts: list[tuple[str, Outcome, float, float]] = field(default_factory=list)
    spoiled: Spoiled | None = None
    # Of events in lines: which lines stand still, and what is filed for that.
    standing: Standing | None = None
    # Events that were run, or left where they are for those before them.
    met: int = 0


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


class EventRun:
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
        """Run events until the page's time, or its room for commands, is spent.

        What may not run yet, in a line, is passed over and noted.

        A change of the controls ends it too: what is paused now is not begun.
        """
        controls = self._parts.controls
        version = controls.version
        ends = time.monotonic() + self.limits.page_time.total_seconds()
        breath, task = Breath(), asyncio.current_task()
        for portion in bodies.portions(rows, self.limits.page_bytes):
            payloads = await bodies.read(connection, self._parts.sql, portion)
            for row in await bodies.complete(connection, self._parts.sql, portion):
                results.met += 1
                if results.standing is not None and not results.standing.may_run(row):
                    continue
                raw = row["payload"] if row["body_id"] is None else payloads.get(row["body_id"])
                await self._run_one(task, connection, row, raw, results)
                await breath.take()
                if (
                    len(results.sent) >= self.limits.page_commands
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
        drafts: list[CommandDraft] = []
        plans: list[Plan] = []
        outcome: Outcome = Succeeded()
        handler: EventHandler | None = None
        try:
            for handler in self._parts.registry.handlers_of(row["topic"], row["type"]):
                drafts += await self._handle(
                    task, handler, row, "null" if raw is None else raw, savepoint, plans
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
            if drafts:
                parent = _parent(row)
                results.sent += [(draft, parent) for draft in drafts]
            if plans:
                results.planned += [Planned(plan, _parent(row)) for plan in plans]
        else:
            self.set_back(row, outcome, results)

    def set_back(self, row: Row, outcome: Unsuccessful, results: Results) -> None:
        """Note what becomes of an event that did not succeed, and of the line that it is in."""
        results.setbacks.append(setback(outcome, row, self._parts.me.id))
        if results.standing is not None:
            results.standing.set_back(row, dead=isinstance(outcome, Dead))

    async def _handle(
        self,
        task: Task,
        handler: EventHandler,
        row: Row,
        raw: str,
        savepoint: PageSavepoint,
        plans: list[Plan],
    ) -> list[CommandDraft]:
        registry = self._parts.registry
        if handler.command_type is not None:
            return [wrap_event(registry.command_of(handler), row, raw)]
        event = Event(row, decode(handler, raw, row["schema_version"]))
        lend: Callable[[], Any] = savepoint.lend
        if handler.executor == "thread":
            lend = lambda: BlockingConnection(savepoint.lend())  # noqa: E731 - as short as its name
        context = EventContext(row, lend, registry.resolve, _handler_log)
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
                    plans.append(plan)
                return context.drafts
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
        failure = explain(error)
        self._parts.metrics.tally.fail("event", row["type"], failure.kind)
        with bound(
            event_id=row["event_id"], correlation_id=row["correlation_id"] or row["event_id"]
        ):
            dead = isinstance(outcome, Dead)
            (_log.error if dead else _log.info)(
                "event is a dead letter" if dead else "event did not succeed",
                type=row["type"],
                outcome=name(outcome),
                attempt=row["attempts"] + 1,
                error=failure.error,
            )
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
        standing = results.standing
        if standing is not None and standing.aside:
            await lines.step_aside(connection, sql, standing.aside)
        if standing is not None and standing.filed:
            await lines.file(connection, sql, standing.filed)
        left = results.setbacks or (standing is not None and standing.lines)
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


def _parent(row: Row) -> Parent:
    lineage = Lineage(row["correlation_id"], row["causation_id"], row["traceparent"])
    return Parent("event", row["id"], child_of(lineage, row["event_id"]))
