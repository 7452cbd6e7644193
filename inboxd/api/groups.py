"""Batches and waiting commands that one execution of a handler builds.

Owns the drafts of batches, edges and steps, and their gathering. Promises: nothing is gathered for
a handler that makes no batch; the batches of a handler that ended well become one plan, which is
refused if it is invalid; after that, batches and workflows cannot be changed.
Known limit: all members that one handler adds are in memory; a huge batch is filled by several.
*See:* `context`, before it; `commands/ended.py`, which takes the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, Unpack
from uuid import UUID

from pydantic import BaseModel

from inboxd.api.drafts import CommandDraft
from inboxd.api.options import SendOptions
from inboxd.errors import UsageError
from inboxd.model import checks
from inboxd.model.lineage import uuid7
from inboxd.model.workflow import Condition

_ENDED = (
    "The handler that made this batch or workflow has ended: members and continuations are given "
    "where it is made; an open batch is filled with ctx.add_to(batch_id, ...)."
)


class BatchDraft(NamedTuple):
    """A batch to be inserted; expires: seconds from the insert, None for a closed batch.

    size: the number of its members, commands and batches.
    """

    batch_id: UUID
    kind: Literal["batch", "workflow"]
    name: str | None
    type: str | None
    parent: UUID | None
    tenant: str | None
    size: int
    needs: int
    awaited: bool
    expires: float | None


class EdgeDraft(NamedTuple):
    """`waiting` may run when `needs` has met its condition; both are commands or batches."""

    needs: UUID
    waiting: UUID
    condition: Condition


class StepDraft(NamedTuple):
    """The name of a member of a workflow."""

    workflow: UUID
    name: str
    member: UUID


class Plan(NamedTuple):
    """The batches of a handler, written with the settlement of its row, before the commands.

    added: the number of new commands of each batch that was made elsewhere. closed: batches that
    were made elsewhere, and are closed here.
    """

    batches: list[BatchDraft]
    edges: list[EdgeDraft]
    steps: list[StepDraft]
    added: dict[UUID, int]
    closed: list[UUID]


@dataclass(slots=True)
class BatchBuilder:
    """A batch that is being built."""

    batch_id: UUID
    kind: Literal["batch", "workflow"]
    name: str | None
    type: str | None
    parent: BatchBuilder | None
    tenant: str | None
    expires: float | None
    size: int = 0
    closed: bool = False


class Groups:
    """The batches and workflows of one context."""

    __slots__ = ("_closers", "_drafts", "_edges", "_ended", "_plan", "_send", "made", "tenant")

    def __init__(
        self, send: Callable[..., UUID], drafts: list[CommandDraft], tenant: str | None
    ) -> None:
        """Gather for a context that sends with `send`, which appends to `drafts`."""
        self._send = send
        self._drafts = drafts
        self._edges: dict[tuple[UUID, UUID], Condition] = {}
        self._closers: list[Callable[[], None]] = []
        self._plan = Plan([], [], [], {}, [])
        self._ended = False
        self.tenant = tenant
        self.made: dict[UUID, BatchBuilder] = {}

    def make(
        self,
        kind: Literal["batch", "workflow"],
        name: str | None,
        *,
        type: str | None = None,
        parent: BatchBuilder | None = None,
        tenant: str | None = None,
        expires: float | None = None,
    ) -> BatchBuilder:
        """Begin a batch."""
        self.check_open()
        check_text(f"a {kind}'s name", name)
        check_text(f"a {kind}'s type", type)
        check_text("a tenant", tenant)
        tenant = tenant or (self.tenant if parent is None else parent.tenant)
        builder = BatchBuilder(uuid7(), kind, name, type, parent, tenant, expires)
        self.made[builder.batch_id] = builder
        if parent is not None:
            parent.size += 1
        return builder

    def send(self, command: object, options: SendOptions, into: BatchBuilder | None) -> UUID:
        """Send a command as a member of a batch; by default it belongs to the batch's tenant."""
        self.check_open()
        # a command that is kept is not written, so a batch could not count it
        if options.get("unique_key") is not None:
            raise UsageError("unique_key= is for ctx.send: a member of a batch must be written.")
        if into is None:
            return self._send(command, **options)
        if into.closed:
            raise _closed(into.batch_id, into.name)
        if options.get("tenant") is None and into.tenant is not None:
            options = {**options, "tenant": into.tenant}
        command_id = self._send(command, **options)
        self._drafts[-1] = self._drafts[-1]._replace(batch=into.batch_id)
        into.size += 1
        return command_id

    def send_to(self, batch_id: UUID, command: object, options: SendOptions) -> UUID:
        """Send a command as a member of a batch that may have been made elsewhere."""
        if batch_id in self.made:
            return self.send(command, options, self.made[batch_id])
        if batch_id in self._plan.closed:
            raise _closed(batch_id)
        command_id = self.send(command, options, None)
        self._drafts[-1] = self._drafts[-1]._replace(batch=batch_id)
        self._plan.added[batch_id] = self._plan.added.get(batch_id, 0) + 1
        return command_id

    def continue_(
        self, builder: BatchBuilder, condition: Condition, command: object, options: SendOptions
    ) -> None:
        """Send a command that waits for a batch, and is a member of that batch's parent."""
        if builder.tenant is not None and options.get("tenant") is None:
            options = {**options, "tenant": builder.tenant}
        command_id = self.send(command, options, builder.parent)
        self._drafts[-1] = self._drafts[-1]._replace(origin=builder.batch_id)
        self.wait(command_id, builder.batch_id, condition)

    def wait(self, waiting: UUID, needs: UUID, condition: Condition) -> None:
        """Make one command or batch wait for another."""
        self._edges[needs, waiting] = condition

    def name_step(self, workflow: UUID, name: str, member: UUID) -> None:
        """Note the name of a workflow's member."""
        self._plan.steps.append(StepDraft(workflow, name, member))

    def at_end(self, closer: Callable[[], None]) -> None:
        """Call `closer` when the plan is made; it may refuse the plan, or add edges."""
        self._closers.append(closer)

    def is_beside(self, batch_id: UUID) -> bool:
        """Whether it is a batch made here outside of any workflow, which therefore never waits."""
        builder = self.made.get(batch_id)
        while builder is not None and builder.parent is not None:
            builder = builder.parent
        return builder is not None and builder.kind == "batch"

    def close_batch(self, batch_id: UUID) -> None:
        """Close a batch, made here or elsewhere; raises UsageError if it is closed here already."""
        self.check_open()
        builder = self.made.get(batch_id)
        if builder is not None:
            if builder.expires is None:
                raise _closed(batch_id, builder.name)
            builder.expires, builder.closed = None, True
        elif batch_id in self._plan.closed:
            raise _closed(batch_id)
        else:
            self._plan.closed.append(batch_id)

    def check_open(self) -> None:
        """Raise UsageError once the handler has ended."""
        if self._ended:
            raise UsageError(_ENDED)

    def end(self) -> None:
        """Note that the handler has ended."""
        self._ended = True

    def plan(self) -> Plan:
        """Make the plan; note in the draft of each of its commands the number of rows it waits for.

        Raises UsageError for an invalid plan, such as steps in a circle.
        """
        self.end()
        for closer in self._closers:
            closer()
        plan = self._plan
        plan.edges.extend(
            EdgeDraft(needs, waiting, condition)
            for (needs, waiting), condition in self._edges.items()
        )
        waits = Counter(edge.waiting for edge in plan.edges)
        awaited = {edge.needs for edge in plan.edges}
        held = self._draft_batches(waits, awaited)
        for position, draft in enumerate(self._drafts if plan.edges else ()):
            # A member that waits itself need not wait for its waiting batch as well.
            needs = waits.get(draft.command_id) or draft.batch in held
            if needs or draft.command_id in awaited:
                marked = draft._replace(needs=int(needs), awaited=draft.command_id in awaited)
                self._drafts[position] = marked
        return plan

    def _draft_batches(self, waits: Counter[UUID], awaited: set[UUID]) -> set[UUID]:
        """Draft the batches, parents first; returns the waiting ones: their members wait, too."""
        held = set()
        for made in self.made.values():
            parent = None if made.parent is None else made.parent.batch_id
            needs = waits[made.batch_id] or int(parent in held)
            if needs:
                held.add(made.batch_id)
            self._plan.batches.append(
                BatchDraft(
                    made.batch_id,
                    made.kind,
                    made.name,
                    made.type,
                    parent,
                    made.tenant,
                    made.size,
                    needs,
                    made.batch_id in awaited,
                    made.expires,
                )
            )
        return held


class Node:
    """A step or batch of this handler, for which other steps may wait."""

    __slots__ = ("_groups", "id")

    def __init__(self, groups: Groups, id: UUID) -> None:
        """Stand for the command or batch `id`."""
        self._groups = groups
        self.id = id

    @property
    def succeeded(self) -> After:
        """Wait for its success; a step or batch without a condition means the same."""
        return After(self._groups, self.id, Condition.SUCCEEDED)

    @property
    def failed(self) -> After:
        """Wait for its failure for good: it, or a member of the batch, is a dead letter."""
        return After(self._groups, self.id, Condition.FAILED)

    @property
    def finished(self) -> After:
        """Wait until it has ended, whatever its status is then."""
        return After(self._groups, self.id, Condition.FINISHED)


class Continued:
    """A batch or workflow that is being built, and its continuations."""

    __slots__ = ()
    _groups: Groups
    _builder: BatchBuilder

    def then(self, command: object, **options: Unpack[SendOptions]) -> Self:
        """Send a command that runs when all of it has succeeded, also after a replay or resume."""
        return self._continue(Condition.SUCCEEDED, command, options)

    def otherwise(self, command: object, **options: Unpack[SendOptions]) -> Self:
        """Send a command that runs when it has ended and a member or step failed for good."""
        return self._continue(Condition.FAILED, command, options)

    def finally_(self, command: object, **options: Unpack[SendOptions]) -> Self:
        """Send a command that runs when it has ended, whatever its status is then."""
        return self._continue(Condition.FINISHED, command, options)

    def _continue(self, condition: Condition, command: object, options: SendOptions) -> Self:
        self._groups.continue_(self._builder, condition, command, options)
        return self


class After(NamedTuple):
    """A node, and the condition for which a step waits."""

    groups: Groups
    id: UUID
    condition: Condition


def check_many(commands: object) -> None:
    """Raise UsageError for a value that is not a list of commands, such as a single command."""
    # A pydantic model is iterable, too: over its fields.
    if not isinstance(commands, Iterable) or isinstance(commands, str | bytes | BaseModel):
        raise UsageError(f"A batch takes a list of commands, not {type(commands).__name__}.")


def check_batch_id(batch_id: object) -> None:
    """Raise UsageError for a value that is not the id of a batch."""
    if not isinstance(batch_id, UUID):
        raise UsageError(f"{batch_id!r} is not the id of a batch: give its `id`, a UUID.")


def _closed(batch_id: UUID, name: str | None = None) -> UsageError:
    named = str(batch_id) if name is None else f"{name!r}"
    return UsageError(f"The batch {named} is closed already, or was never open: see ctx.batch().")


def check_text(what: str, value: object) -> None:
    """Raise UsageError for a name that the database cannot hold; None is valid."""
    if value is not None and (problem := checks.name(value)):
        raise UsageError(f"{value!r:.40} cannot be {what}: it {problem}.")
