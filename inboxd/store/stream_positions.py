"""The stream_positions table: the position up to which each stream of messages is stored.

Promises that a page of messages is one statement and transaction with its positions, durable when
`store` returns; that only the reader that opened a stream last can store messages, and only until
an operator resets the stream. Known limit: without positions of the broker, repeated messages are
recognised by dedup keys alone. *See:* `inbound/messages/streams.py`, before it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypedDict, cast
from uuid import UUID

import asyncpg

from inboxd.errors import LeaseLost
from inboxd.model.message import ReceivedMessage
from inboxd.store.arrays import columns, filled, sparse
from inboxd.store.session import Session

Begins = Literal["oldest", "newest"]

_LEASE_LOST = "IB001"


@dataclass(slots=True)
class OpenedStream:
    """position: None: nothing is stored, or no position known. begins: the start by an operator."""

    stream: str
    position: int | None
    identity: str
    begins: Begins | None
    fence: int


class PageStored(NamedTuple):
    """The results of a page's events; contradictions and broken events are written as well."""

    written: int
    duplicates: int
    contradictions: int
    broken: int


async def open_stream(session: Session, source: str, stream: str, worker: UUID) -> OpenedStream:
    """Open a stream for this worker, which shuts out earlier readers."""
    row = await session.one("open_stream", source, stream, worker)
    return OpenedStream(stream, *row)


async def begin(
    session: Session, source: str, opened: OpenedStream, position: int, identity: str
) -> None:
    """Set the position after which the stream begins; it counts as stored. Raises LeaseLost."""
    given = (source, opened.stream, opened.fence, position, identity)
    if await session.fetchval("begin_stream", *given) is None:
        raise _lost(source)
    opened.position, opened.identity, opened.begins = position, identity, None


async def moved(
    session: Session, source: str, opened: Sequence[OpenedStream]
) -> dict[str, UUID | None]:
    """Streams that another worker has opened since; None: an operator has reset it."""
    rows = await session.fetch("moved_streams", source, *columns(opened, "stream", "fence"))
    return {row["stream"]: row["reader"] for row in rows}


class StreamRow(TypedDict):
    source: str
    stream: str
    position: int | None
    begins: Begins | None
    identity: str
    opened_at: datetime | None
    stored_at: datetime | None
    reader: UUID | None


async def listed(
    session: Session, source: str | None = None, limit: int = 100_000
) -> list[StreamRow]:
    return cast("list[StreamRow]", await session.fetch("list_streams", limit, source))


async def first(session: Session, most: int) -> tuple[list[StreamRow], int]:
    """The first `most` streams of all sources, and the number of the others."""
    rows = await listed(session, limit=most + 1)
    if len(rows) <= most:
        return rows, 0
    whole: int = await session.fetchval("count_streams")
    return rows[:most], max(1, whole - most)


async def one(session: Session, source: str, stream: str) -> StreamRow | None:
    return cast("StreamRow | None", await session.fetchrow("show_stream", source, stream))


async def there(session: Session, event_ids: Collection[UUID]) -> set[UUID]:
    """The ids among these that exist, unsettled or in history."""
    rows = await session.fetch("events_there", [*event_ids])
    return {row["event_id"] for row in rows}


async def reset(
    session: Session, source: str, stream: str, *, position: int | None, begins: Begins | None
) -> bool:
    """Set where a stream is read from: a position or an end; False: there is no such stream."""
    given = (source, stream, position, begins)
    return await session.fetchval("reset_stream", *given) is not None


async def store(
    session: Session,
    source: str,
    messages: Sequence[ReceivedMessage],
    opened: Sequence[OpenedStream],
) -> PageStored:
    """Needs no open transaction. A stream's messages must be in order, after its position.

    All or nothing: raises LeaseLost, or the database's error about any message.
    """
    last = {each.stream: each for each in messages}
    streams = sorted(opened, key=lambda each: each.stream)
    newest = [last[each.stream] for each in streams]
    _tell_apart(messages)
    owners = [message for message in messages for _ in message.events]
    events = [event for message in messages for event in message.events]
    try:
        row = await session.one(
            "store_messages",
            source,
            *columns(streams, "stream", "fence", "position"),
            *columns(newest, "position", "identity"),
            *columns(events, "event_id", "type", "payload"),
            *sparse(events, "topic", "ordering_key", "dedup_key", "tenant"),
            *sparse(events, "entity_type", "entity_id", "headers", "traceparent"),
            *sparse(owners, "correlation_id", "causation_id", "occurred_at"),
            filled([each.schema_version for each in owners], 1),
            *sparse(owners, "other_id"),
            *sparse(events, "broken"),
        )
    except asyncpg.PostgresError as error:
        if error.sqlstate == _LEASE_LOST:
            raise _lost(source) from error
        raise
    for each, message in zip(streams, newest, strict=True):
        if message.position is not None:
            each.position = message.position
        each.identity, each.begins = message.identity, None
    return PageStored(*row)


def _tell_apart(messages: Sequence[ReceivedMessage]) -> None:
    """Give the later of two messages with one sender's id in a page its other id."""
    seen: set[UUID] = set()
    for message in messages:
        if message.other_id is not None:
            if message.events[0].event_id in seen:
                for event in message.events:
                    event.event_id = message.other_id
            seen.add(message.events[0].event_id)


def _lost(source: str) -> LeaseLost:
    return LeaseLost(f"another worker reads the source {source!r} by now, or an operator reset it")
