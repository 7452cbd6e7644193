"""A chunk that is due, before it runs: its facts, and its origin.

Owns the facts of a chunk. Promises that they are taken by the database's clock. Pure. *See:*
`making`, which finds the chunk; `run`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from inboxd.api.chunks import ChunkInfo
from inboxd.api.messages import moment
from inboxd.api.records import ChunkHandler
from inboxd.engine.outcomes import parent_of
from inboxd.events.chunks.reading import ChunkPart, HeldChunk, Payloads, UnreadEvents, read_rows
from inboxd.model.lineage import Lineage, uuid7
from inboxd.store.chunks import Common
from inboxd.store.rows import ClaimedEvent
from inboxd.store.settlements import Parent


@dataclass(frozen=True, slots=True)
class DueChunk:
    handler: ChunkHandler
    info: ChunkInfo
    whole: ChunkPart
    unread: UnreadEvents


def in_memory(handler: ChunkHandler, rows: Sequence[ClaimedEvent], payloads: Payloads) -> DueChunk:
    """The chunk of rows that are in memory."""
    unread = UnreadEvents()
    events = read_rows(handler.readers, rows, payloads, unread)
    types = {event.type for event in events}
    info = info_of(handler, rows[0], len(events), types)
    return DueChunk(handler, info, HeldChunk(rows, events), unread)


def info_of(
    handler: ChunkHandler, first: ClaimedEvent, size: int, types: Collection[str]
) -> ChunkInfo:
    """The facts of a chunk of `size` events of these types, which begins with the row `first`.

    They are as of now by the database's clock. Unreadable events do not belong to the chunk, and
    are missing from it.
    """
    rule = handler.rule
    oldest = moment(first["created_at"])
    now = oldest + timedelta(seconds=first["age"])
    closes_at = rule.closes_at(oldest)
    opened_at = None if closes_at is None else rule.opened_at(closes_at)
    missing = rule.missing(types)
    short = len(missing) if rule.expected else max(0, (rule.full or 0) - size)
    return ChunkInfo(
        topic=handler.topic,
        key=first["ordering_key"] or "",
        size=size,
        since=oldest if opened_at is None else opened_at,
        until=now if closes_at is None else min(now, closes_at),
        missing=missing,
        short=short,
    )


def origin_of(part: ChunkPart, common: Common) -> tuple[Any, Parent]:
    """The row that a chunk's context shows, and the parent of its commands: its first event.

    The chunk's story is that of its events, if they share one, or else a story of its own.
    """
    first = part.first
    if part.size == 1:
        return first, parent_of(first)
    own = uuid7()
    story = common.correlation_id or str(own)
    row = {
        "id": first["id"],
        "event_id": own,
        "correlation_id": story,
        "tenant": common.tenant,
        "attempts": first["attempts"],
    }
    return row, Parent(
        "event", first["id"], Lineage(story, first["event_id"], first["traceparent"])
    )
