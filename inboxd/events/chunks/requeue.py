"""Requeues a chunk that failed as a whole: to halves, to a retry, or to dead letters.

Its events stay together while they wait; events with an outcome of their own do not (promise 2).
Known limit: the first of the others counts the attempts of a chunk that is not in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from inboxd.api.records import ChunkHandler
from inboxd.engine.outcomes import error_entry, requeue
from inboxd.engine.parts import Parts
from inboxd.errors import HandlerTimeout
from inboxd.events.chunks.reading import ChunkPart, HeldChunk, StoredChunk
from inboxd.events.chunks.written import left_of
from inboxd.events.settling import EventSettling, PageResults
from inboxd.model.outcome import Dead, Unsuccessful, explain
from inboxd.store import chunks, events, lines
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedChunk:
    key: str
    part: ChunkPart
    error: BaseException


class RequeueResult(Enum):
    ENDED = auto()  # each of its events has an outcome of its own
    HALVES = auto()  # a half may end in time
    WAITING = auto()
    DEAD = auto()


@dataclass(frozen=True, slots=True)
class ChunkRequeue:
    parts: Parts
    settling: EventSettling
    handler: ChunkHandler

    async def requeue(
        self, session: Session, failed: FailedChunk, noted: Sequence[PageResults]
    ) -> RequeueResult:
        """Requeue a chunk. noted: outcomes of single events that its transaction has noted."""
        part, first = failed.part, failed.part.first
        left: Sequence[ClaimedEvent] = ()
        if isinstance(part, HeldChunk):
            left = left_of(part, noted)
            if not left:
                return RequeueResult.ENDED
            first = left[0]
        elif isinstance(part, StoredChunk):
            still = await part.left(session)
            if still is None:
                return RequeueResult.ENDED
            part, first = still, still.first
            failed = replace(failed, part=part)
        if isinstance(failed.error, HandlerTimeout) and self.handler.may_split and part.size > 1:
            await make_due(session, part, left)
            return RequeueResult.HALVES
        became, outcome = await self._fail(session, failed, first, left)
        if noted:
            size = len(left) or part.size
            handler, error = self.handler.runs, failed.error
            self.settling.report(error, first, handler, outcome, noted[-1], events=size)
        return became

    async def _fail(
        self,
        session: Session,
        failed: FailedChunk,
        first: ClaimedEvent,
        left: Sequence[ClaimedEvent],
    ) -> tuple[RequeueResult, Unsuccessful]:
        part, me = failed.part, self.parts.me
        outcome = self.settling.judge(failed.error, first, self.handler.readers.get(first["type"]))
        if not isinstance(outcome, Dead):
            again = replace(requeue(outcome, first, me), status="waiting")  # stays in its line
            await events.requeue(session, [again])
        elif isinstance(part, StoredChunk):
            entry = error_entry(outcome.failure, first["attempts"] + 1, me)
            await chunks.fail(session, part.stretch, entry, outcome.failure.fingerprint)
        else:
            await lines.leave_line(session, [row["id"] for row in left])
            dead = [requeue(outcome, row, me) for row in left]
            await events.requeue(session, dead)
        _log.warning(
            "chunk did not succeed",
            topic=self.handler.topic,
            key=failed.key,
            events=part.size,
            reason=explain(failed.error).error,
        )
        became = RequeueResult.DEAD if isinstance(outcome, Dead) else RequeueResult.WAITING
        return became, outcome


async def make_due(session: Session, part: ChunkPart, rows: Sequence[ClaimedEvent]) -> None:
    """Make all events of a chunk due, since any may become the head. rows: those in memory."""
    now = [row["id"] for row in rows] or [part.first["id"]]
    again = [Requeue(id_, "waiting", delay=0.0) for id_ in now]
    await events.requeue(session, again)
    if isinstance(part, StoredChunk):
        await chunks.make_due(session, part.stretch)
