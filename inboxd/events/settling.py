"""Settling: collects the outcomes of a page's events, and writes them by a few statements.

A page is counted only after its commit. *See:* `page_run` and `chunks.run`, before it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from inboxd.api.drafts import CommandDraft, EmittedDraft
from inboxd.api.groups import Plan
from inboxd.api.records import EventHandler
from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.hooks import failed_attempt
from inboxd.engine.judge import Judge
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
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Requeue
from inboxd.telemetry.tally import After


class EventExecution(NamedTuple):
    """An executed event, for the tally; times in seconds."""

    topic: str
    type: str
    tenant: str | None
    outcome: Outcome
    duration: float
    latency: float
    age: float
    after: After


def counted(row: ClaimedEvent, outcome: Outcome, seconds: float) -> EventExecution:
    waited = max(0.0, row["waited"])
    kept = (row["topic"], row["type"], row["tenant"])
    return EventExecution(*kept, outcome, seconds, waited, row["age"], after(row))


def ended_story(row: ClaimedEvent, seconds: float) -> list[tuple[str, float]]:
    """The story that ended with an event without effects: its type, and its seconds if known."""
    age = story_age(row["correlation_id"], row["created_at"], row["age"])
    return [] if age is None else [(row["type"], age + seconds)]


class PageFailedBy(InboxdError):
    """A transaction that cannot commit because of one event, or of the chunk it begins."""

    def __init__(
        self, row: ClaimedEvent, handler: EventHandler | None, error: BaseException
    ) -> None:
        super().__init__(str(error))
        self.row = row
        self.handler = handler
        self.error = error


@dataclass(slots=True)
class PageResults:
    """Results of a page to write and to count; spoiled: the event at fault, if known."""

    done: list[tuple[int, float]] = field(default_factory=list)
    requeues: list[Requeue] = field(default_factory=list)
    sent: list[tuple[CommandDraft, Parent]] = field(default_factory=list)
    emitted: list[tuple[EmittedDraft, Parent]] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    # Batches to fold once the page has committed.
    fold: list[int] = field(default_factory=list)
    counts: list[EventExecution] = field(default_factory=list)
    # Stories that ended with events without effects: type, and seconds since their beginning.
    stories: list[tuple[str, float]] = field(default_factory=list)
    spoiled: PageFailedBy | None = None
    # The lines of the page; None: its events have no lines.
    order: PageOrder | None = None
    # Reports for log and hooks after the commit; tells: whether the log reports single events.
    tells: bool = False
    told: list[Callable[[], None]] = field(default_factory=list)
    # Number of events that ran, or stay behind earlier events of their line.
    met: int = 0
    # How many of these were passed over, since their outcome cannot be written.
    aside: int = 0
    # Whether an event was left to another worker, which should claim first from its lane.
    left_to_peer: bool = False
    # Whether the rows were not locked during the run, so that operators may have changed some.
    unlocked: bool = False

    def sizes(self) -> tuple[int, int, int]:
        return len(self.sent), len(self.emitted), len(self.planned)

    def cut(self, sizes: tuple[int, int, int]) -> None:
        sent, emitted, planned = sizes
        del self.sent[sent:], self.emitted[emitted:], self.planned[planned:]


# Notes the outcome of an event that failed with an error, in one of its handlers.
NoteFailure: TypeAlias = Callable[
    [BaseException, ClaimedEvent, EventHandler | None, PageResults], Unsuccessful
]


@dataclass(slots=True)
class Outgoing:
    """Rows sent by the handlers of one row; written only if all handlers succeed."""

    drafts: list[CommandDraft] = field(default_factory=list)
    events: list[EmittedDraft] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of commands and events."""
        return len(self.drafts) + len(self.events)

    def note(self, parent: Parent, results: PageResults) -> None:
        results.sent += [(draft, parent) for draft in self.drafts]
        results.emitted += [(draft, parent) for draft in self.events]
        results.planned += [Planned(plan, parent) for plan in self.plans]


class EventSettling:
    """Judges, writes and counts outcomes of events. limits: those of a page, from the settings."""

    def __init__(self, parts: Parts) -> None:
        self.limits = parts.settings.events
        self._parts = parts
        self.losses = LossExemptions(parts.settings.worker.crash_limit)
        self._judge = Judge(parts)

    def reload(self, limits: Limits) -> None:
        self.limits = limits

    def policy(self, topic: str, handler: EventHandler | None) -> Policy:
        """The retry policy of the handler, else of its topic, else the default."""
        declared = self._parts.registry.topics.get(topic)
        return (handler and handler.retry) or (declared and declared.retry) or self._parts.policy

    def judge(
        self, error: BaseException, row: ClaimedEvent, handler: EventHandler | None
    ) -> Unsuccessful:
        return self._judge.outcome(error, row, handler, self.policy(row["topic"], handler))

    def fail(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        results: PageResults,
    ) -> Unsuccessful:
        return self._note(error, row, handler, self.judge(error, row, handler), results)

    def bury(
        self,
        error: BaseException,
        row: ClaimedEvent,
        handler: EventHandler | None,
        results: PageResults,
    ) -> Unsuccessful:
        """Note that an event becomes a dead letter, whatever its policy allows."""
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
        """Report a failed attempt to hooks after the commit; events: their number in a chunk."""
        hooks = self._parts.hooks
        if hooks.want_failures:
            me = self._parts.me
            failed = failed_attempt(me, row, handler, outcome, error, events=events)
            if failed is not None:
                results.told.append(partial(hooks.report, failed))

    async def write(self, session: Session, results: PageResults) -> None:
        """Lines are changed late, so that events that leave or join a line find its final state."""
        started = time.monotonic()
        me = self._parts.me.id
        if results.sent or results.planned:
            results.fold += await batches.write(session, results.sent, results.planned)
        if results.done:
            await events.settle(session, results.done, me, all_of_them=not results.unlocked)
        if results.requeues:
            await events.requeue(session, results.requeues)
        order = results.order
        if order is not None and order.leaving:
            await lines.leave_line(session, order.leaving)
        if order is not None and order.lined_up:
            await lines.line_up(session, order.lined_up)
        if results.emitted:  # last: so that its keys and lines are locked for a shorter time
            await emitted.write(session, results.emitted)
        left = results.requeues or (order is not None and order.lines)
        if left and self._parts.fleet.differs:  # another worker may be able to run the events
            await wakeups.notify(session, "events")
        self._parts.metrics.settle_duration.labels("event").observe(time.monotonic() - started)

    def count(self, results: PageResults) -> None:
        tally = self._parts.metrics.tally
        for topic, type_, tenant, outcome, seconds, waited, age, follows in results.counts:
            tally.add("event", type_, name(outcome), seconds, waited, topic, age, follows, tenant)
        for type_, seconds in results.stories:
            tally.end_story("event", type_, seconds)
        for batch in results.fold:
            self._parts.folder.note(batch)
        self.tell(results)

    def tell(self, results: PageResults) -> None:
        for say in results.told:
            say()
