"""Drafts and receipts of a producer, and the columns that drafts fill.

Owns `NewEvent` and `NewCommand`, and how each maps onto its SQL function (design, section 4).
Promises: a field has the meaning and the default of the column of the same name. Known limit: a
draft is checked when it is written, not when it is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack, overload
from uuid import UUID

from inboxd.errors import UsageError
from inboxd.model.checks import Mode, OnConflict, name
from inboxd.model.naming import CommandPayload, EventPayload, Named, command_of, event_of
from inboxd.model.row_columns import Check, CommandFields, EventFields, given

R = TypeVar("R")


@dataclass(slots=True)
class _Draft:
    """The fields that events and commands share."""

    type: str
    payload: object = None
    _: KW_ONLY
    run_at: datetime | None = None
    ordering_key: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    schema_version: int = 1
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None


@dataclass(slots=True, kw_only=True)
class NewEvent(_Draft):
    """An event to be written: `NewEvent("order.paid", {"order_id": 3}, …)`.

    Or `NewEvent(OrderPaid(order_id=3), …)`, of a class that names its type (`inboxd_event`).
    `payload` is a dict, a list, a dataclass or a pydantic model; None is `{}`. Without a `topic`
    the event goes to every topic that subscribes to its type. `mode` is the topic's; give it only
    for an undeclared topic. Events of a sequential topic with the same `ordering_key` run in the
    order in which they were written. Only one of the events with the same topic, `source` and
    `dedup_key` is written (docs/deduplication.md); `event_id` alone ensures that only while that
    event is unsettled. `occurred_at` and `run_at` carry a time zone and lie between 1970 and 9999;
    None is now.
    """

    topic: str | None = None
    source: str | None = None
    headers: Mapping[str, Any] | None = None
    occurred_at: datetime | None = None
    mode: Mode | None = None
    dedup_key: str | None = None
    event_id: UUID | None = None

    # For type checkers; at run time the dataclass' own method is used.
    if TYPE_CHECKING:

        @overload
        def __init__(
            self, type: str, payload: object = None, **fields: Unpack[EventFields]
        ) -> None: ...

        @overload
        def __init__(self, type: EventPayload, **fields: Unpack[EventFields]) -> None: ...

        def __init__(self, *args: object, **fields: object) -> None: ...

    def __post_init__(self) -> None:
        """Take a payload in place of the type, if its class names a type."""
        _unfold(self, event_of)


@dataclass(slots=True, kw_only=True)
class NewCommand(_Draft):
    """A command to be sent.

    It is made like `NewEvent` (a class names its type as `inboxd_command`); without a `queue` it
    gets the queue that its handler declares. A command that cannot start by its `deadline` becomes
    a dead letter; one that has not started at `expires_at` is cancelled. `max_attempts` overrides
    the policy. Commands of a queue with the same `ordering_key` run one after the other, in the
    order in which they were sent. At most one
    unsettled command of a type has a `unique_key`; `on_conflict` decides what happens if one
    exists: it is kept ("keep": nothing is written, and the receipt names it with `duplicate` true),
    it is cancelled ("replace", unless it runs), or an error is raised ("reject").
    """

    queue: str | None = None
    deadline: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    command_id: UUID | None = None
    priority: int = 0
    unique_key: str | None = None
    on_conflict: OnConflict = "keep"

    if TYPE_CHECKING:

        @overload
        def __init__(
            self, type: str, payload: object = None, **fields: Unpack[CommandFields]
        ) -> None: ...

        @overload
        def __init__(self, type: CommandPayload, **fields: Unpack[CommandFields]) -> None: ...

        def __init__(self, *args: object, **fields: object) -> None: ...

    def __post_init__(self) -> None:
        """Take a payload in place of the type, if its class names a type."""
        _unfold(self, command_of)


class Emitted(NamedTuple):
    """The receipt of an event.

    `duplicate`: an event with this event_id is unsettled, or an event with this dedup key is known,
    and nothing was written; `event_id` and `id` name that event (`id`: None once it is settled).
    `conflict`: the event with the dedup key has other content; this event is a dead letter, or
    became one earlier if it is also a `duplicate`. For an event that goes to several topics, the
    fields describe its row in the first topic.
    """

    id: int | None
    event_id: UUID
    duplicate: bool
    conflict: bool = False


class Sent(NamedTuple):
    """The receipt of a command.

    `duplicate`: a command with this command_id, or with this unique key, is unsettled and nothing
    was written; `command_id` and `id` name that command (`id`: None if it was settled meanwhile).
    """

    id: int | None
    command_id: UUID
    duplicate: bool


def _unfold(draft: Any, named_by: Callable[[type[object]], Named | None]) -> None:
    """Move a payload that was given as the type into its place; invalid types are refused later."""
    given = draft.type
    named = None if isinstance(given, str) else named_by(given.__class__)
    if named is None:
        return
    if draft.payload is not None:
        name = given.__class__.__qualname__
        raise UsageError(f"{name}: give the payload alone, or its type and the payload.")
    draft.type, draft.payload = named.type, given
    if draft.schema_version == 1:
        draft.schema_version = named.schema_version


def _type(value: object) -> str | None:
    if isinstance(value, str):
        return name(value)
    given = type(value).__qualname__
    return f"must be a str, not {given}, whose class names no type"


class DraftField(NamedTuple):
    """A field of a draft, the parameter of the SQL function that takes it, and its check.

    The check returns the problem of a value, or None. A field whose default is not None refuses
    None; the default `...` means that the field is required.
    """

    field: str
    parameter: str
    type: str
    check: Check
    default: object = None


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """Events or commands: the noun, the draft, the SQL function, the columns, the receipt.

    `named_by`: finds the type that a payload's class names.
    `answer`: the function's columns of which the receipt is made; id, duplicate and UUID first.
    """

    noun: str
    draft: type[Any]
    named_by: Callable[[type[object]], Named | None]
    function: str
    columns: tuple[DraftField, ...]
    answer: str
    receipt: Callable[..., R]


# The payload and the headers are encoded, and so no part of this.
_ENCODED = ("payload", "headers")


def _fields(kind: str, first: str) -> tuple[DraftField, ...]:
    """The fields that fill columns, the row's own id first."""
    found = [
        DraftField(c.name, c.parameter, c.type, _type if c.name == "type" else c.check, c.default)
        for c in given(kind)
        if c.check is not None and c.name not in _ENCODED
    ]
    return tuple(sorted(found, key=lambda each: each.field != first))


EVENTS: Kind[Emitted] = Kind(
    "event",
    NewEvent,
    event_of,
    "emit_event_arrays",
    _fields("event", "event_id"),
    "id, duplicate, event_id, conflict",
    Emitted,
)

COMMANDS: Kind[Sent] = Kind(
    "command",
    NewCommand,
    command_of,
    "send_command_arrays",
    _fields("command", "command_id"),
    "id, duplicate, command_id",
    Sent,
)
