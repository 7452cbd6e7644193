"""The end of a command: its outcome, and what its handler sent and emitted.

*See:* `attempts`, `settler`.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from inboxd.api.context import CommandContext
from inboxd.api.drafts import CommandDraft, EmittedDraft, encode
from inboxd.api.hooks import FailedAttempt
from inboxd.api.routes import Route
from inboxd.engine.outcomes import parent_of
from inboxd.errors import InboxdError, PayloadError
from inboxd.model.lineage import uuid7
from inboxd.store.batches import Planned
from inboxd.store.rows import ClaimedCommand
from inboxd.store.settlements import EXPIRED, Parent, Requeue, Settlement
from inboxd.telemetry import tally

D = TypeVar("D", CommandDraft, EmittedDraft)

CANCELLED = "its cancellation was requested"


class Expired(InboxdError):
    """The command did not start by its `expires_at`."""


class Later(InboxdError):
    """A failure that the command did not cause: it runs again soon, without spending an attempt."""


# The end of a run. "left": given to another worker, which should claim first from its lane.
RunEnd: TypeAlias = Literal["succeeded", "unsuccessful", "left"]


class EndedCommand(NamedTuple):
    row: ClaimedCommand
    outcome: Settlement | Requeue
    sent: Sequence[tuple[CommandDraft, Parent]] = ()
    planned: Sequence[Planned] = ()
    emitted: Sequence[tuple[EmittedDraft, Parent]] = ()
    # For hooks, after the outcome is written.
    failed: FailedAttempt | None = None
    # How the execution is counted, after the outcome is written; None: the handler did not run, or
    # it is to run again as if it had not.
    counts: tally.Outcome | None = None
    # The execution's duration.
    seconds: float = 0.0
    end: RunEnd = "unsuccessful"

    @property
    def has_expired(self) -> bool:
        return isinstance(self.outcome, Settlement) and self.outcome.status == EXPIRED

    @property
    def writes(self) -> bool:
        return bool(self.sent or self.planned or self.emitted)


def succeeded(
    row: ClaimedCommand, context: CommandContext, value: object, seconds: float
) -> EndedCommand:
    """The outcome of a handler that returned `value`. Raises PayloadError if that is not JSON."""
    result = None if value is None else _encode_result(value)
    plan = context.plan()
    planned = () if plan is None else (Planned(plan, parent_of(row)),)
    sent = _with_parent(row, context.drafts) if context.drafts else ()
    events = _with_parent(row, context.events) if context.events else ()
    settlement = Settlement(row["id"], row["fence"], "succeeded", seconds, result)
    return EndedCommand(
        row, settlement, sent, planned, events, None, "succeeded", seconds, "succeeded"
    )


def fell_back(row: ClaimedCommand, route: Route, breaker: str, payload: str) -> EndedCommand:
    """The outcome if the command's breaker is open: the fallback is sent with its payload."""
    draft = CommandDraft(
        uuid7(),
        route.type,
        payload,
        route.schema_version,
        queue=route.queue,
        priority=route.priority,
        tenant=row["tenant"],
        ordering_key=row["ordering_key"],
    )
    told = {"breaker": breaker, "type": route.type, "command_id": str(draft.command_id)}
    result = encode({"fallback": told})
    settlement = Settlement(row["id"], row["fence"], "succeeded", 0.0, result)
    sent = _with_parent(row, [draft])
    return EndedCommand(row, settlement, sent, counts="succeeded", end="succeeded")


def cancelled(row: ClaimedCommand, seconds: float | None = None) -> EndedCommand:
    """seconds: since its execution began; None: it had not begun, so nothing is counted."""
    settlement = Settlement(row["id"], row["fence"], "cancelled", seconds or 0.0, None)
    if seconds is None:
        return EndedCommand(row, settlement)
    return EndedCommand(row, settlement, counts="cancelled", seconds=seconds)


def expired(row: ClaimedCommand) -> EndedCommand:
    return EndedCommand(row, Settlement(row["id"], row["fence"], EXPIRED, 0.0, None))


def given_back(row: ClaimedCommand, status: Literal["pending", "waiting"]) -> EndedCommand:
    """The outcome that makes a command as if it had never been leased: no attempt, no crash."""
    return EndedCommand(row, Requeue(row["id"], status, fence=row["fence"]))


def _encode_result(value: object) -> str:
    try:
        return encode(value)
    except PayloadError as error:
        raise PayloadError(f"the result cannot be stored: {error.message}", error.path) from None


def _with_parent(row: ClaimedCommand, drafts: Sequence[D]) -> list[tuple[D, Parent]]:
    """Drafts sent by a command, with the lineage that they inherit."""
    parent = parent_of(row)
    return [(draft, parent) for draft in drafts]
