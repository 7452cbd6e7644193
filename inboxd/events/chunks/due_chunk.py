"""A due chunk before it runs: the values for its handler's context, and its origin."""

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
    unread = UnreadEvents()
    events = read_rows(handler.readers, rows, payloads, unread)
    types = {event.type for event in events}
    info = info_of(handler, rows[0], len(events), types)
    return DueChunk(handler, info, HeldChunk(rows, events), unread)


def info_of(
    handler: ChunkHandler, first: ClaimedEvent, size: int, types: Collection[str]
) -> ChunkInfo:
    """Times are as of now by the database's clock. Unreadable events are not in the chunk."""
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
    """Both from its first event. If all its events share a story, the chunk belongs to it."""
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
