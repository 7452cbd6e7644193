"""The columns of events and commands, each described once, with the options that fill them.

Checks, array arguments, privileges, lists of columns in statements and functions, and read-only
models are made from a description; a test holds drafts, stored rows and the producers' page to it.
The order of the columns that producers give is that of the parameters of `emit_event` and
`send_command`: a new one comes after them, so that positional calls keep their meaning.
*See:* `store/columns.py`, which writes lists of columns into SQL.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from inboxd.model.checks import (
    Mode,
    OnConflict,
    count,
    key,
    mode,
    name,
    on_conflict,
    short,
    small,
    text,
    time,
    uuid,
)

# Returns the problem of a value, or None.
Check: TypeAlias = Callable[[Any], str | None]


_PLURALS = {"priority": "priorities"}


class Column(NamedTuple):
    """A column of a table, or an argument of the producers' functions.

    type: PostgreSQL's, as the functions take it. check: of a value that a producer or a handler
    gives; None: neither gives one. default: of an argument; `...`: it is required. option: handlers
    give it, too. is_kept: history has it. is_stored: the table has it. changes: operators' actions
    and workers change it. passes: a time that a replay removes once it has passed.
    """

    name: str
    type: str
    check: Check | None = None
    default: object = None
    option: bool = False
    is_kept: bool = True
    is_stored: bool = True
    changes: bool = False
    passes: bool = False

    @property
    def parameter(self) -> str:
        """The name of its array: `priorities`."""
        return self.name if self.name.endswith("s") else _PLURALS.get(self.name, f"{self.name}s")


def _given(name: str, type: str, check: Check, default: object = None) -> Column:
    return Column(name, type, check, default)


def _option(name: str, type: str, check: Check, default: object = None) -> Column:
    return Column(name, type, check, default, option=True)


_SCHEMA_VERSION = _given("schema_version", "integer", count, 1)
_TENANT = _option("tenant", "text", short)
_ENTITY = (_option("entity_type", "text", short), _option("entity_id", "text", short))
_STORY = (
    _given("correlation_id", "text", short),
    _given("causation_id", "uuid", uuid),
    _given("traceparent", "text", short),
)
_RUN_AT = _option("run_at", "timestamptz", time)._replace(changes=True)
_ORDERING_KEY = _option("ordering_key", "text", key)


def _own(types: str, *, is_kept: bool = True, changes: bool = False) -> Iterator[Column]:
    """Columns that inboxd writes, as `name type` in each line."""
    for line in types.strip().splitlines():
        column, type_ = line.split()
        yield Column(column, type_, is_kept=is_kept, changes=changes)


# Columns that both tables have, and only inboxd writes.
_BOOKKEEPING = """
    id bigint
    bucket smallint
    fingerprint text
    body_id bigint
    body_at timestamptz
    body_bytes integer
    created_at timestamptz
    origin_kind text
    origin_id bigint
    errors jsonb
"""
_ATTEMPTS = """
    status text
    attempts smallint
    crashes smallint
    updated_at timestamptz
"""

_EVENT = (
    _given("type", "text", name, ...),
    _given("payload", "jsonb", text),
    _option("topic", "text", name),
    _given("event_id", "uuid", uuid),
    _SCHEMA_VERSION._replace(option=True),
    _option("source", "text", short),
    _TENANT,
    *_ENTITY,
    _option("headers", "jsonb", text),
    *_STORY,
    _option("occurred_at", "timestamptz", time),
    _RUN_AT,
    _option("mode", "text", mode),
    _ORDERING_KEY,
    _option("dedup_key", "text", key),
    *_own(_BOOKKEEPING),
    *_own(_ATTEMPTS, changes=True),
    *_own("position bigint\nhead boolean", is_kept=False),
)
_COMMAND = (
    _given("type", "text", name, ...),
    _given("payload", "jsonb", text),
    _option("queue", "text", name),
    _given("command_id", "uuid", uuid),
    _SCHEMA_VERSION,
    _option("priority", "integer", small, 0)._replace(changes=True),
    _RUN_AT,
    _option("deadline", "timestamptz", time)._replace(changes=True, passes=True),
    _option("max_attempts", "integer", count),
    _TENANT,
    *_ENTITY,
    *_STORY,
    _ORDERING_KEY,
    _option("unique_key", "text", key),
    _option("on_conflict", "text", on_conflict, "keep")._replace(is_stored=False, is_kept=False),
    _option("expires_at", "timestamptz", time)._replace(changes=True, passes=True),
    *_own(_BOOKKEEPING),
    *_own(_ATTEMPTS, changes=True),
    *_own("cancel_requested boolean", changes=True),
    *_own("fence bigint\nworker_id uuid\nstarted_at timestamptz\nreplay_of bigint"),
    *_own("batch_id bigint\nresult jsonb\nprogress jsonb\nawaited boolean\nsender text"),
    *_own("needs integer\nline_at timestamptz\nsuspect_group uuid", is_kept=False),
    *_own("lone_crashes smallint\nalone_fence bigint", is_kept=False),
)
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {"event": _EVENT, "command": _COMMAND}


def given(kind: str) -> tuple[Column, ...]:
    """The arguments of the producers' functions, in their order."""
    return tuple(column for column in COLUMNS[kind] if column.check is not None)


def columns_of(kind: str) -> tuple[str, ...]:
    """The columns that producers fill, and handlers or the rows that these handle."""
    return tuple(column.name for column in given(kind) if column.is_stored)


def options_of(kind: str) -> dict[str, Check]:
    """The options that `ctx.send` and `ctx.emit` take, with their checks."""
    return {c.name: c.check for c in COLUMNS[kind] if c.option and c.check is not None}


# ---------------------------------------------------------------------------- options, for editors


class _SharedColumns(TypedDict, total=False):
    """The columns that handlers and producers give for events and for commands."""

    run_at: datetime | None
    ordering_key: str | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None


class _ProducedColumns(_SharedColumns, total=False):
    """The columns that only producers give."""

    schema_version: int
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None


class EventOptionColumns(_SharedColumns, total=False):
    """The columns that `ctx.emit` takes as options, and producers give, too."""

    topic: str | None
    source: str | None
    headers: Mapping[str, Any] | None
    occurred_at: datetime | None
    mode: Mode | None
    dedup_key: str | None


class CommandOptionColumns(_SharedColumns, total=False):
    """The columns that `ctx.send` takes as options, and producers give, too."""

    queue: str | None
    deadline: datetime | None
    expires_at: datetime | None
    max_attempts: int | None


class EventFields(_ProducedColumns, EventOptionColumns, total=False):
    """The keyword arguments of `Inbox.emit`: the fields of `NewEvent`."""

    event_id: UUID | None


class CommandFields(_ProducedColumns, CommandOptionColumns, total=False):
    """The keyword arguments of `Inbox.send`: the fields of `NewCommand`."""

    command_id: UUID | None
    priority: int
    unique_key: str | None
    on_conflict: OnConflict
