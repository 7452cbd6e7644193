"""What a producer writes, and what it gets back: drafts, receipts, and the columns they fill.

Owns `NewEvent` and `NewCommand`, and how each maps onto its SQL function (design, section 4).
Promises: a field's meaning and default are those of the column of the same name.
Known limit: a draft is checked when it is written, not when it is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar
from uuid import UUID

from inboxd.client.checks import count, key, mode, name, on_conflict, short, small, time, uuid

R = TypeVar("R")
OnConflict: TypeAlias = Literal["keep", "replace", "reject"]
Mode: TypeAlias = Literal["single", "sequential", "batch"]


@dataclass(slots=True)
class NewEvent:
    """A fact to be written.

    `payload` is a dict, a list, a dataclass or a pydantic model; None is `{}`. Without a `topic`
    the event goes to every topic that its type is subscribed to. `mode` is the topic's; give it
    only for a topic that nobody declares. Events of a sequential topic with the same `ordering_key`
    run in the order in which they were written. Of the events of a topic and `source` with the same
    `dedup_key` one is written (docs/deduplication.md); `event_id` alone does that only while that
    event is unsettled. `occurred_at` and `run_at` carry a time zone and lie between 1970 and 9999;
    None is now.
    """

    type: str
    payload: object = None
    _: KW_ONLY
    topic: str | None = None
    event_id: UUID | None = None
    schema_version: int = 1
    source: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    headers: Mapping[str, Any] | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None
    occurred_at: datetime | None = None
    run_at: datetime | None = None
    mode: Mode | None = None
    ordering_key: str | None = None
    dedup_key: str | None = None


@dataclass(slots=True)
class NewCommand:
    """An action to be requested.

    As `NewEvent`; without a `queue` it gets the one that its handler declares. A command that
    cannot start by its `deadline` becomes a dead letter; `max_attempts` overrides the policy.
    Commands of a queue with the same `ordering_key` run one after the other, in the order in which
    they were sent. At most one unsettled command of a type has a `unique_key`; `on_conflict` says
    what happens if there is one: it is kept ("keep": nothing is written, the receipt says
    `duplicate` and names that one), cancelled ("replace", unless it runs), or an error ("reject").
    """

    type: str
    payload: object = None
    _: KW_ONLY
    queue: str | None = None
    command_id: UUID | None = None
    schema_version: int = 1
    priority: int = 0
    run_at: datetime | None = None
    deadline: datetime | None = None
    max_attempts: int | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None
    ordering_key: str | None = None
    unique_key: str | None = None
    on_conflict: OnConflict = "keep"


class EventFields(TypedDict, total=False):
    """The keyword arguments of `Inbox.emit`: the fields of `NewEvent`."""

    topic: str | None
    event_id: UUID | None
    schema_version: int
    source: str | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    headers: Mapping[str, Any] | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    occurred_at: datetime | None
    run_at: datetime | None
    mode: Mode | None
    ordering_key: str | None
    dedup_key: str | None


class CommandFields(TypedDict, total=False):
    """The keyword arguments of `Inbox.send`: the fields of `NewCommand`."""

    queue: str | None
    command_id: UUID | None
    schema_version: int
    priority: int
    run_at: datetime | None
    deadline: datetime | None
    max_attempts: int | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    ordering_key: str | None
    unique_key: str | None
    on_conflict: OnConflict


class Emitted(NamedTuple):
    """The receipt of an event.

    `duplicate`: an event with this event_id is unsettled, or one with this dedup key is known, and
    nothing was written; `event_id` and `id` are that one's, `id` is None once it is settled.
    `conflict`: the one that has the dedup key said something else; this one is a dead letter, or
    was one before, if it is a `duplicate` too. Of an event that goes to several topics, what is
    said is true of the first of them.
    """

    id: int | None
    event_id: UUID
    duplicate: bool
    conflict: bool = False


class Sent(NamedTuple):
    """The receipt of a command.

    `duplicate`: a command with this command_id, or with this unique key, is unsettled and nothing
    was written; `command_id` and `id` are that one's, `id` is None if it was settled just then.
    """

    id: int | None
    command_id: UUID
    duplicate: bool


class Column(NamedTuple):
    """A field of a draft, the parameter of the SQL function that takes it, and its check.

    The check returns what is wrong with a value, or None. A field whose default is not None refuses
    None; `...` is no default at all.
    """

    field: str
    parameter: str
    type: str
    check: Callable[[Any], str | None]
    default: object = None


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """Events or commands: the noun, the draft, the SQL function, the columns, the receipt.

    `answer`: the function's columns that the receipt is made of; id, duplicate and UUID first.
    """

    noun: str
    draft: type[Any]
    function: str
    columns: tuple[Column, ...]
    answer: str
    receipt: Callable[..., R]


_SHARED = (
    Column("type", "types", "text", name, default=...),
    Column("schema_version", "schema_versions", "integer", count, default=1),
    Column("tenant", "tenants", "text", short),
    Column("entity_type", "entity_types", "text", short),
    Column("entity_id", "entity_ids", "text", short),
    Column("correlation_id", "correlation_ids", "text", short),
    Column("causation_id", "causation_ids", "uuid", uuid),
    Column("traceparent", "traceparents", "text", short),
    Column("run_at", "run_ats", "timestamptz", time),
)

EVENTS: Kind[Emitted] = Kind(
    "event",
    NewEvent,
    "emit_event_arrays",
    (
        Column("event_id", "event_ids", "uuid", uuid),
        *_SHARED,
        Column("topic", "topics", "text", name),
        Column("source", "sources", "text", short),
        Column("occurred_at", "occurred_ats", "timestamptz", time),
        Column("mode", "modes", "text", mode),
        Column("ordering_key", "ordering_keys", "text", key),
        Column("dedup_key", "dedup_keys", "text", key),
    ),
    "id, duplicate, event_id, conflict",
    Emitted,
)

COMMANDS: Kind[Sent] = Kind(
    "command",
    NewCommand,
    "send_command_arrays",
    (
        Column("command_id", "command_ids", "uuid", uuid),
        *_SHARED,
        Column("queue", "queues", "text", name),
        Column("priority", "priorities", "integer", small, default=0),
        Column("deadline", "deadlines", "timestamptz", time),
        Column("max_attempts", "max_attempts", "integer", count),
        Column("ordering_key", "ordering_keys", "text", key),
        Column("unique_key", "unique_keys", "text", key),
        Column("on_conflict", "on_conflicts", "text", on_conflict, default="keep"),
    ),
    "id, duplicate, command_id",
    Sent,
)
