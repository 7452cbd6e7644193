"""Settling: what the run of events has to write, and the few statements that write it.

Owns by which rule an event that failed is judged, and the order of a page's statements. Promises
that a page is written by a fixed number of statements, and counted only when it has committed.
*See:* `page_run` and `chunks.run`, which note what came of events; `engine.judge`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from inboxd.api.drafts import CommandDraft, EmittedDraft
from inboxd.api.groups import Plan
from inboxd.api.records import EventHandler
from inboxd.engine.hooks import failed_attempt
from inboxd.engine.judge import Judge
from inboxd.engine.losses import LossExemptions
from inboxd.engine.outcomes import after, name, requeue, site_of
from inboxd.engine.parts import Parts
from inboxd.engine.versions import LeftToPeer
from inboxd.errors import InboxdError
from inboxd.events.page_order import PageOrder
from inboxd.model.backoff import Policy
from inboxd.model.lineage import story_age
from inboxd.model.outcome import Dead, Outcome, Unsuccessful, explain
from inboxd.settings import Events as Limits
from inboxd.store import batches, emitted, events, lines, wakeups
from inboxd.store.batches import Planned
from inboxd.store.connections import Connection
from inboxd.store.rows import ClaimedEvent
from inboxd.store.settlements import Parent, Requeue
from inboxd.telemetry.tally import After


class EventExecution(NamedTuple):
    """An event that was executed, for the tally; times in seconds."""

    topic: str
    type: str
    tenant: str | None
    outcome: Outcome
    duration: float
    latency: float
    age: float
    after: After


def counted(row: ClaimedEvent, outcome: Outcome, seconds: float) -> EventExecution:
    """What is counted of an event."""
    waited = max(0.0, row["waited"])
    kept = (row["topic"], row["type"], row["tenant"])
    return EventExecution(*kept, outcome, seconds, waited, row["age"], after(row))


def ended_story(row: ClaimedEvent, seconds: float) -> list[tuple[str, float]]:
    """What is noted of an event that succeeded and brought nothing about, if its story tells."""
    age = story_age(row["correlation_id"], row["created_at"], row["age"])
    return [] if age is None else [(row["type"], age + seconds)]


class PageFailedBy(InboxdError):
    """A transaction cannot commit because of one event, or of a chunk that begins with it."""

    def __init__(
        self, row: ClaimedEvent, handler: EventHandler | None, error: BaseException
    ) -> None:
        super().__init__(str(error))
        self.row = row
        self.handler = handler
        self.error = error


@dataclass(slots=True)
class PageResults:
    """What a page has to write, and what it has counted; spoiled: by whom, if it is known."""

    done: list[tuple[int, float]] = field(default_factory=list)
    requeues: list[Requeue] = field(default_factory=list)
    sent: list[tuple[CommandDraft, Parent]] = field(default_factory=list)
    emitted: list[tuple[EmittedDraft, Parent]] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    # Batches to fold once the page has committed.
    fold: list[int] = field(default_factory=list)
    counts: list[EventExecution] = field(default_factory=list)
    # Of events that succeeded and brought nothing about: type, and seconds since the story began.
    stories: list[tuple[str, float]] = field(default_factory=list)
    spoiled: PageFailedBy | None = None
    # Of events in lines: which lines stand still, and what is lined up for that.
    order: PageOrder | None = None
    # What the log and hooks are told once the page has committed; tells: whether of single events.
    tells: bool = False
    told: list[Callable[[], None]] = field(default_factory=list)
    # Events that were run, or left where they are for those before them.
    met: int = 0
    # Of them those that are passed over, since nothing can be written of them.
    aside: int = 0
    # An event was left to another worker, which should have the first go at its lane now.
    left_to_peer: bool = False
    # Its rows were not locked while they were processed: operators may have put some away.
    unlocked: bool = False

    def sizes(self) -> tuple[int, int, int]:
        """How much there is to write that handlers sent: commands, events, plans."""
        return len(self.sent), len(self.emitted), len(self.planned)

    def cut(self, sizes: tuple[int, int, int]) -> None:
        """Forget what was sent since these were the sizes."""
        sent, emitted, planned = sizes
        del self.sent[sent:], self.emitted[emitted:], self.planned[planned:]


# Notes in the results what becomes of an event that failed with an error, in one of its handlers.
NoteFailure: TypeAlias = Callable[
    [BaseException, ClaimedEvent, EventHandler | None, PageResults], Unsuccessful
]


@dataclass(slots=True)
class Outgoing:
    """What the handlers of one row sent; nothing of it is written unless all of them end well."""

    drafts: list[CommandDraft] = field(default_factory=list)
    events: list[EmittedDraft] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def __len__(self) -> int:
        """How many commands and events."""
        return len(self.drafts) + len(self.events)

    def note(self, parent: Parent, results: PageResults) -> None:
        """It is to be written, as what `parent` brought about."""
        results.sent += [(draft, parent) for draft in self.drafts]
        results.emitted += [(draft, parent) for draft in self.events]
        results.planned += [Planned(plan, parent) for plan in self.plans]


class EventSettling:
    """Judges, writes and counts what came of events. limits: what settings allow a page."""

    def __init__(self, parts: Parts) -> None:
        """Settle as the worker of `parts`."""
        self.limits = parts.settings.events
        self._parts = parts
        self.losses = LossExemptions()
        self._judge = Judge(parts)

    def reload(self, limits: Limits) -> None:
        """Take over what may change while running."""
        self.limits = limits

    def policy(self, topic: str, handler: EventHandler | None) -> Policy:
        """The rule of a handler, or of its topic, or the one for all."""
        declared = self._parts.registry.topics.get(topic)
        return (handler and handler.retry) or (declared and declared.retry) or self._parts.policy

    def judge(
        self, error: BaseException, row: ClaimedEvent, handler: EventHandler | None
    ) -> Unsuccessful:
        """What follows from an error, by the handler's own rule."""
        return self._judge.outcome(error, row, handler, self.policy(row["topic"], handler))

    def fail(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        results: PageResults,
    ) -> Unsuccessful:
        """Judge an event that did not succeed, and note what becomes of it and of its line."""
        return self._note(error, row, handler, self.judge(error, row, handler), results)

    def bury(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        results: PageResults,
    ) -> Unsuccessful:
        """Note that an event becomes a dead letter, whatever its rule says."""
        dead = Dead(explain(error, site_of(row, handler)))
        return self._note(error, row, handler, dead, results)

    def _note(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        outcome: Unsuccessful,
        results: PageResults,
    ) -> Unsuccessful:
        self.report(error, row, handler, outcome, results)
        results.requeues.append(requeue(outcome, row, self._parts.me))
        results.left_to_peer |= isinstance(outcome, LeftToPeer)
        if results.order is not None:
            results.order.requeue(row, dead=isinstance(outcome, Dead))
        return outcome

    def report(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        outcome: Unsuccessful,
        results: PageResults,
        *,
        events: int | None = None,
    ) -> None:
        """Let hooks be told of a failed attempt once this has committed; `events`: of a chunk."""
        hooks = self._parts.hooks
        if hooks.want_failures:
            me = self._parts.me
            failed = failed_attempt(me, row, handler, outcome, error, events=events)
            if failed is not None:
                results.told.append(partial(hooks.report, failed))

    async def write(self, connection: Connection, results: PageResults) -> None:
        """Insert what the handlers sent, and settle: a fixed number of statements.

        Rows of lines come last: what leaves its line or is lined up then finds its line as it will
        be.
        """
        started = time.monotonic()
        sql, me = self._parts.sql, self._parts.me.id
        if results.sent or results.planned:
            results.fold += await batches.write(connection, sql, results.sent, results.planned)
        if results.done:
            await events.settle(connection, sql, results.done, me, all_of_them=not results.unlocked)
        if results.requeues:
            await events.requeue(connection, sql, results.requeues)
        order = results.order
        if order is not None and order.leaving:
            await lines.leave_line(connection, sql, order.leaving)
        if order is not None and order.lined_up:
            await lines.line_up(connection, sql, order.lined_up)
        if results.emitted:  # last: who waits for its keys, or in its lines, waits less
            await emitted.write(connection, sql, results.emitted)
        left = results.requeues or (order is not None and order.lines)
        if left and self._parts.fleet.differs:  # some may wait for who can read or run them
            await wakeups.notify(connection, sql, "events")
        self._parts.metrics.settle_duration.labels("event").observe(time.monotonic() - started)

    def count(self, results: PageResults) -> None:
        """Count a page that has committed."""
        tally = self._parts.metrics.tally
        for topic, type_, tenant, outcome, seconds, waited, age, follows in results.counts:
            tally.add("event", type_, name(outcome), seconds, waited, topic, age, follows, tenant)
        for type_, seconds in results.stories:
            tally.end_story("event", type_, seconds)
        for batch in results.fold:
            self._parts.folder.note(batch)
        self.tell(results)

    def tell(self, results: PageResults) -> None:
        """Tell the log and hooks of what has committed."""
        for say in results.told:
            say()
