"""A chunk that did not succeed as a whole: it is halved, waits for its retry, or is dead letters.

Owns what is written of such a chunk. Promises that its events stay together while they wait, and
that none of them is set back that had an end of its own (promise 2). Known limit: the attempts of a
chunk that is too long for memory are counted by the first of its events that has no such end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from inboxd.api.records import ChunkHandler
from inboxd.engine.outcomes import error_entry, setback
from inboxd.engine.parts import Parts
from inboxd.errors import HandlerTimeout
from inboxd.events.chunks.reading import ChunkPart, Held, Stored
from inboxd.events.chunks.written import left_of
from inboxd.events.settling import EventSettling, PageResults
from inboxd.model.outcome import Dead, explain
from inboxd.store import chunks, events, lines
from inboxd.store.connections import Connection
from inboxd.store.rows import ClaimedEvent
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedChunk:
    """A chunk that is set back as a whole."""

    key: str
    part: ChunkPart
    error: BaseException


class SetbackResult(Enum):
    """What became of a chunk that did not succeed."""

    ENDED = auto()  # each of its events has an end of its own
    HALVES = auto()  # it may end in time
    WAITING = auto()
    DEAD = auto()


@dataclass(frozen=True, slots=True)
class ChunkSetback:
    """Sets back the chunks of one handler."""

    parts: Parts
    settling: EventSettling
    handler: ChunkHandler

    async def set_back(
        self, connection: Connection, failed: FailedChunk, noted: Sequence[PageResults]
    ) -> SetbackResult:
        """Write what becomes of a chunk; `noted` is what its transaction noted of single events."""
        part, first = failed.part, failed.part.first
        left: Sequence[ClaimedEvent] = ()
        if isinstance(part, Held):
            left = left_of(part, noted)
            if not left:
                return SetbackResult.ENDED
            first = left[0]
        elif isinstance(part, Stored):
            still = await part.left(connection)
            if still is None:
                return SetbackResult.ENDED
            part, first = still, still.first
            failed = replace(failed, part=part)
        if isinstance(failed.error, HandlerTimeout) and self.handler.may_split and part.size > 1:
            await hasten(connection, self.parts.sql, part, left)
            return SetbackResult.HALVES
        return await self._fail(connection, failed, first, left)

    async def _fail(
        self,
        connection: Connection,
        failed: FailedChunk,
        first: ClaimedEvent,
        left: Sequence[ClaimedEvent],
    ) -> SetbackResult:
        part, sql, me = failed.part, self.parts.sql, self.parts.me
        outcome = self.settling.judge(failed.error, first, self.handler.readers.get(first["type"]))
        if not isinstance(outcome, Dead):
            again = replace(setback(outcome, first, me), status="waiting")  # it stays in its line
            await events.set_back(connection, sql, [again])
        elif isinstance(part, Stored):
            entry = error_entry(outcome.failure, first["attempts"] + 1, me)
            await chunks.fail_stretch(
                connection, sql, part.stretch, entry, outcome.failure.fingerprint
            )
        else:
            await lines.step_aside(connection, sql, [row["id"] for row in left])
            dead = [setback(outcome, row, me) for row in left]
            await events.set_back(connection, sql, dead)
        _log.warning(
            "chunk did not succeed",
            topic=self.handler.topic,
            key=failed.key,
            events=part.size,
            reason=explain(failed.error).error,
        )
        return SetbackResult.DEAD if isinstance(outcome, Dead) else SetbackResult.WAITING


async def hasten(
    connection: Connection, sql: Statements, part: ChunkPart, rows: Sequence[ClaimedEvent]
) -> None:
    """Let whichever event of a chunk comes to be the head be due; `rows` are those in memory."""
    now = [row["id"] for row in rows] or [part.first["id"]]
    again = [events.Setback(id_, "waiting", delay=0.0) for id_ in now]
    await events.set_back(connection, sql, again)
    if isinstance(part, Stored):
        await chunks.hasten(connection, sql, part.stretch)
