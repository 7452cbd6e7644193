"""Commands, events and batches that a handler sent, for inspection in a test.

Owns their views. Promises: a command is in one place: by itself, in its batch, or as a continuation
or step. Known limit: the views show the sent rows, not their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID

import orjson

from inboxd.api.drafts import CommandDraft, EmittedDraft, EventDraft, WebhookDraft
from inboxd.api.groups import BatchDraft, Plan
from inboxd.errors import NotFound
from inboxd.model.workflow import Condition


@dataclass(frozen=True, slots=True)
class SentCommand:
    """A command that the handler sent; `payload` is decoded JSON, `draft` has all other fields."""

    type: str
    queue: str | None
    payload: Any
    draft: CommandDraft


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    """An event that the handler emitted; `payload` is decoded JSON, `draft` has all other fields.

    topic: the topic that was named; None: the topics that subscribe to the type.
    """

    type: str
    topic: str | None
    payload: Any
    draft: EventDraft


@dataclass(frozen=True, slots=True)
class SentWebhook:
    """A webhook that the handler sent; `payload` is decoded JSON, `draft` has all other fields."""

    type: str
    payload: Any
    draft: WebhookDraft


@dataclass(frozen=True, slots=True)
class SentStep:
    """A step of a workflow: a command or a batch, and its prerequisites with conditions."""

    what: SentCommand | SentBatch
    after: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch or workflow: members, nested batches, continuations; steps for a workflow.

    `draft` has the other fields, such as the tenant; `expires` is set only for an open batch.
    """

    name: str | None
    draft: BatchDraft
    commands: tuple[SentCommand, ...] = ()
    batches: tuple[SentBatch, ...] = ()
    then: tuple[SentCommand, ...] = ()
    otherwise: tuple[SentCommand, ...] = ()
    finally_: tuple[SentCommand, ...] = ()
    steps: Mapping[str, SentStep] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AllSent:
    """Everything that a handler sent; a command is by itself, in a batch, or a continuation.

    `added` and `closed` are batches that were made elsewhere; `events` were emitted; `webhooks` are
    not assigned to endpoints yet.
    """

    events: tuple[EmittedEvent, ...] = ()
    commands: tuple[SentCommand, ...] = ()
    batches: tuple[SentBatch, ...] = ()
    workflows: tuple[SentBatch, ...] = ()
    added: Mapping[UUID, tuple[SentCommand, ...]] = field(default_factory=dict)
    closed: tuple[UUID, ...] = ()
    webhooks: tuple[SentWebhook, ...] = ()

    def and_also(self, other: AllSent) -> AllSent:
        """Combine with the rows that another handler of the same event sent."""
        return AllSent(
            events=self.events + other.events,
            commands=self.commands + other.commands,
            batches=self.batches + other.batches,
            workflows=self.workflows + other.workflows,
            added={
                batch_id: (*self.added.get(batch_id, ()), *other.added.get(batch_id, ()))
                for batch_id in {**self.added, **other.added}
            },
            closed=tuple(dict.fromkeys(self.closed + other.closed)),
            webhooks=self.webhooks + other.webhooks,
        )


class _Gathered(Protocol):
    """The gathered drafts of a handler's context."""

    drafts: list[CommandDraft]
    events: list[EmittedDraft]

    def plan(self) -> Plan | None:
        """The plan of its batches, or None."""


class GivenResults:
    """Results of earlier steps, given by the test."""

    def __init__(self, results: Mapping[str, Any], *, blocking: bool) -> None:
        """Answer with `results`; directly if the handler runs in a thread."""
        self._results = results
        self._blocking = blocking

    def __call__(self, _row: object, step: str) -> Any:
        """The result, or an awaitable of it."""
        return self._given(step) if self._blocking else self._later(step)

    async def _later(self, step: str) -> Any:
        return self._given(step)

    def _given(self, step: str) -> Any:
        if step not in self._results:
            raise NotFound(f"The step {step!r} has no result: give the test's, results={{…}}.")
        return self._results[step]


def look(context: _Gathered) -> AllSent:
    """Everything that a handler sent and emitted."""
    events = tuple(_emitted(each) for each in context.events if isinstance(each, EventDraft))
    webhooks = tuple(_webhook(each) for each in context.events if isinstance(each, WebhookDraft))
    plan = context.plan()
    if plan is None:
        return AllSent(events, tuple(map(_sent, context.drafts)), webhooks=webhooks)
    return replace(_View(context.drafts, plan).all(), events=events, webhooks=webhooks)


def _sent(draft: CommandDraft) -> SentCommand:
    return SentCommand(draft.type, draft.queue, orjson.loads(draft.payload), draft)


def _emitted(draft: EventDraft) -> EmittedEvent:
    return EmittedEvent(draft.type, draft.topic, orjson.loads(draft.payload), draft)


def _webhook(draft: WebhookDraft) -> SentWebhook:
    return SentWebhook(draft.type, orjson.loads(draft.payload), draft)


class _View:
    """A plan, arranged by batch."""

    def __init__(self, drafts: list[CommandDraft], plan: Plan) -> None:
        self._plan = plan
        self._sent = {draft.command_id: _sent(draft) for draft in drafts}
        self._conditions = {(edge.needs, edge.waiting): edge.condition for edge in plan.edges}
        self._batches: dict[UUID, SentBatch] = {}

    def all(self) -> AllSent:
        # Parents were made before their inner batches.
        for draft in reversed(self._plan.batches):
            self._batches[draft.batch_id] = self._batch(draft)
        top = [
            self._batches[draft.batch_id] for draft in self._plan.batches if draft.parent is None
        ]
        return AllSent(
            commands=tuple(self._members(None)),
            batches=tuple(each for each in top if each.draft.kind == "batch"),
            workflows=tuple(each for each in top if each.draft.kind == "workflow"),
            added={batch_id: tuple(self._members(batch_id)) for batch_id in self._plan.added},
            closed=tuple(self._plan.closed),
        )

    def _members(self, batch_id: UUID | None) -> Iterable[SentCommand]:
        for sent in self._sent.values():
            if sent.draft.batch == batch_id and sent.draft.origin is None:
                yield sent

    def _continuations(self, batch_id: UUID, condition: Condition) -> Iterable[SentCommand]:
        for command_id, sent in self._sent.items():
            if (
                sent.draft.origin == batch_id
                and self._conditions[batch_id, command_id] == condition
            ):
                yield sent

    def _batch(self, draft: BatchDraft) -> SentBatch:
        inner = [each for each in self._plan.batches if each.parent == draft.batch_id]
        return SentBatch(
            draft.name,
            draft,
            commands=tuple(self._members(draft.batch_id)),
            batches=tuple(self._batches[each.batch_id] for each in inner),
            then=tuple(self._continuations(draft.batch_id, Condition.SUCCEEDED)),
            otherwise=tuple(self._continuations(draft.batch_id, Condition.FAILED)),
            finally_=tuple(self._continuations(draft.batch_id, Condition.FINISHED)),
            steps=dict(self._steps(draft.batch_id)),
        )

    def _steps(self, workflow: UUID) -> Iterable[tuple[str, SentStep]]:
        mine = {step.member: step.name for step in self._plan.steps if step.workflow == workflow}
        waits: dict[UUID, dict[str, str]] = {member: {} for member in mine}
        for needs, waiting, condition in self._plan.edges:
            if waiting in mine:
                waits[waiting][mine.get(needs, str(needs))] = str(condition)
        for member, name in mine.items():
            what = self._sent.get(member) or self._batches[member]
            yield name, SentStep(what, waits[member])
