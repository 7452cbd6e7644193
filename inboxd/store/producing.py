"""Single rows that an operator writes by the producers' functions; UsageError for a refusal."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from inboxd.errors import DatabaseError, UniqueKeyTaken, UsageError
from inboxd.store.connections import Row
from inboxd.store.session import Session

_UNIQUE_KEY_TAKEN = "IB006"
_ANOTHER_MODE = "IB007"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row to write. payload: JSON text; lane: topic or queue; delay: time until it is due.

    expires_in: time until it expires.
    """

    type: str
    payload: str
    lane: str | None = None
    uuid: UUID | None = None
    schema_version: int = 1
    source: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    correlation_id: str | None = None
    delay: timedelta | None = None
    priority: int = 0
    max_attempts: int | None = None
    expires_in: timedelta | None = None
    mode: str | None = None
    ordering_key: str | None = None
    dedup_key: str | None = None
    unique_key: str | None = None
    on_conflict: str = "keep"


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """duplicate: it is an earlier row. conflict: its dedup key is taken, so it is a dead letter."""

    id: int | None
    uuid: UUID
    duplicate: bool
    conflict: bool = False


async def emit(session: Session, entry: Entry) -> WrittenEntry:
    """Insert an event. Raises UsageError if the database refuses a value."""
    return await _call(
        session,
        "emit_event",
        *(entry.type, entry.payload, entry.lane, entry.uuid, entry.schema_version),
        *(entry.source, entry.tenant, entry.entity_type, entry.entity_id),
        *(entry.correlation_id, entry.delay),
        *(entry.mode, entry.ordering_key, entry.dedup_key),
    )


async def dead_copies(session: Session, event: UUID) -> list[Row]:
    """The dead letters of an event: id and topic; none if the role may not read them."""
    try:
        rows = await session.fetch("dead_copies", event)
    except asyncpg.InsufficientPrivilegeError:
        return []
    return sorted(rows, key=lambda row: row["id"])


async def send(session: Session, entry: Entry) -> WrittenEntry:
    """Insert a command. Raises UsageError if the database refuses a value."""
    return await _call(
        session,
        "send_command",
        *(entry.type, entry.payload, entry.lane, entry.uuid, entry.schema_version),
        *(entry.priority, entry.tenant, entry.entity_type, entry.entity_id),
        *(entry.correlation_id, entry.delay, entry.max_attempts),
        *(entry.ordering_key, entry.unique_key, entry.on_conflict, entry.expires_in),
    )


async def _call(session: Session, statement: str, *arguments: object) -> WrittenEntry:
    with refusals():
        row = await session.fetchrow(statement, *arguments)
    if row is None:
        raise DatabaseError(f"{statement} answered nothing; run: inboxd check")
    return WrittenEntry(**row)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise refusals by the database as UsageError or UniqueKeyTaken, without the row."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.CheckViolationError) as error:
        # Only the message: PostgreSQL's DETAIL quotes the row, payload included.
        raise UsageError(f"the database refuses it: {error.args[0]}") from None
    except asyncpg.PostgresError as error:
        if error.sqlstate == _UNIQUE_KEY_TAKEN:
            raise UniqueKeyTaken(error.args[0]).on_terminals(": see --on-conflict") from None
        if error.sqlstate == _ANOTHER_MODE:
            raise UsageError(f"{error.args[0]}: leave the mode out") from None
        raise
