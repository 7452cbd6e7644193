"""Handles a visit that did not commit: an outage, or a chunk that makes its transaction fail.

No event is blamed for an outage; such a chunk is halved until the event at fault is alone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.parts import Parts
from inboxd.errors import DedupKeyHeld, Reject
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.chunks.reading import ChunkPart, HeldChunk
from inboxd.events.chunks.requeue import FailedChunk, make_due
from inboxd.events.chunks.visit import Visit
from inboxd.events.chunks.written import WrittenChunks
from inboxd.events.quarantine import Quarantine
from inboxd.events.settling import EventSettling, PageFailedBy, PageResults
from inboxd.model.outcome import explain
from inboxd.store import lines
from inboxd.store.connections import is_passing, is_refusal
from inboxd.store.pools import transact
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VisitRecovery:
    parts: Parts
    settling: EventSettling
    cursors: ChunkCursors
    quarantine: Quarantine
    # Keyed by a chunk's first event. When this event runs alone, another exemption counts.
    losses: LossExemptions

    async def sort_out(self, visit: Visit, error: Exception, *, lost: bool) -> bool:
        """Does not raise. True: several chunks ran, so the next visits must run one chunk each."""
        if isinstance(error, PageFailedBy):
            error = error.error if isinstance(error.error, Exception) else error
        _log.warning(
            "a transaction with chunks did not commit",
            topic=visit.handler.topic,
            chunks=len(visit.ran),
            reason=explain(error).error,
        )
        try:
            await self.quarantine.give_back()
            if not visit.ran or (is_passing(error) and not lost):
                return False
            key, part = visit.ran[-1]
            if lost and self.losses.excuse(part.first["id"]):
                return False
            if len(visit.ran) > 1:
                return True
            if visit.handler.may_split and part.size > 1 and not isinstance(error, DedupKeyHeld):
                await self._cut(visit, key, part)
            else:
                await self._blame_or_bury(visit, FailedChunk(key, part, error))
        except Exception as again:  # noqa: BLE001 - in an outage no event is blamed
            _log.warning("a chunk could not be requeued", reason=explain(again).error)
        return False

    async def _cut(self, visit: Visit, key: str, part: ChunkPart) -> None:
        async with self._anew(visit) as session:
            await self._line_up(session, part)
            self.cursors.cut(visit.bucket, key, part.size // 2)
            rows = part.rows if isinstance(part, HeldChunk) else ()
            await make_due(session, part, rows)

    async def _blame_or_bury(self, visit: Visit, failed: FailedChunk) -> None:
        """If a requeue is refused, bury its events: else the chunk comes first in every visit."""
        try:
            await self._blame(visit, failed)
        except Exception as refused:
            if not is_refusal(refused):
                raise
            reason = explain(refused).error
            _log.error("a chunk cannot be requeued", topic=visit.handler.topic, reason=reason)
            dead = Reject(f"the database refuses to requeue it: {reason}")
            await self._blame(visit, replace(failed, error=dead))

    async def _blame(self, visit: Visit, failed: FailedChunk) -> None:
        results = PageResults()
        blamed = replace(visit, written=[WrittenChunks(results)], ran=[], failed=[failed])
        async with self._anew(visit) as session:
            await self._line_up(session, failed.part)
            await blamed.requeue(session)
        self.settling.tell(results)

    async def _line_up(self, session: Session, part: ChunkPart) -> None:
        """Line up events that ran before their positions existed: a requeue needs positions."""
        if isinstance(part, HeldChunk):
            fresh = [row["id"] for row in part.rows if row.get("position") is None]
            await lines.line_up(session, fresh)

    @asynccontextmanager
    async def _anew(self, visit: Visit) -> AsyncIterator[Session]:
        """A new transaction that has the bucket."""
        async with transact(self.parts.pool) as session:
            await lines.hold(session, [visit.bucket])
            yield session
