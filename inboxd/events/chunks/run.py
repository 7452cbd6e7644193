"""Runs a chunk through its handler, and notes its outcomes for the settlement.

A failing chunk is undone by its savepoint and halved, until the event at fault is alone. If all
events fail, or many parts and none succeeds, the chunk is requeued as a whole. Known limit: effects
of a handler outside the database are repeated for each half. *See:* `visit`, before it; `reading`
and `engine/execution.py`, after it.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.lowlevel

from inboxd.api.chunks import BlockingEventChunk, EventChunk
from inboxd.api.context import EventContext
from inboxd.api.records import ChunkHandler
from inboxd.engine import row_log
from inboxd.engine.execution import Task
from inboxd.engine.outcomes import is_ours
from inboxd.engine.parts import Parts
from inboxd.engine.target_calls import watch
from inboxd.errors import (
    Defer,
    NoHandler,
    PayloadError,
    Reject,
    Retry,
)
from inboxd.events.chunks.due_chunk import DueChunk, in_memory, origin_of
from inboxd.events.chunks.reading import (
    ChunkPart,
    HeldChunk,
    Payloads,
    StoredChunk,
    UnreadEvents,
)
from inboxd.events.chunks.splitting import SplitProgress, may_halve
from inboxd.events.chunks.written import WrittenChunks, WrittenMark
from inboxd.events.settling import EventSettling, Outgoing, PageFailedBy, PageResults, counted
from inboxd.model.outcome import Succeeded
from inboxd.model.splitting import Pieces
from inboxd.store.handler_connection import PageSavepoint
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Requeue
from inboxd.telemetry.logs import bound, get_logger

_handler_log = get_logger("inboxd.handler")

# Outcomes of single events that are noted before other tasks may run.
_AT_ONCE = 100


class ChunkRun:
    def __init__(self, parts: Parts, settling: EventSettling) -> None:
        self._parts = parts
        self._settling = settling

    def limit(self, handler: ChunkHandler) -> float:
        """Time limit of a chunk, in seconds."""
        return handler.runs.timeout or self._parts.settings.events.chunk_timeout.total_seconds()

    async def run(
        self, task: Task, session: Session, chunk: DueChunk, written: WrittenChunks
    ) -> BaseException | None:
        """Run a chunk; returns the error if the chunk must be requeued as a whole."""
        mark = WrittenMark.of(written)
        pieces, course = Pieces(chunk.whole), SplitProgress()
        for piece in pieces:
            part = piece
            if isinstance(piece, StoredChunk) and piece is not chunk.whole:
                held = await piece.hold(session, chunk.unread)
                if held is None:
                    continue
                part = held
            error = await self._try(task, session, chunk, part, written)
            if error is None:
                course.successes += 1
                continue
            own = self._is_its_own(error, part.first, chunk.handler)
            if part.size == 1 and not chunk.handler.rule.belongs:
                self._requeue(written, part.first, error, chunk.handler)
                course.failed(error, own=own, alone=True)
            elif not may_halve(chunk.handler, error):
                return mark.back(written, error) if part is chunk.whole else error
            elif not course.successes and self._is_open(chunk.handler):
                return mark.back(written, error)  # the target is down: the halves would fail, too
            else:
                course.failed(error, own=own, alone=False)
                pieces.next(*part.halves())
            if course.is_hopeless(more=pieces.more):
                return course.error if course.told else mark.back(written, course.error)
        return None

    def _is_open(self, handler: ChunkHandler) -> bool:
        return handler.runs.breaker in self._parts.breakers.shut

    def _is_its_own(self, error: BaseException, row: ClaimedEvent, handler: ChunkHandler) -> bool:
        """Whether an error is about the events, not about the handler or a target."""
        policy = self._settling.policy(handler.topic, handler.readers.get(row["type"]))
        own = (Reject, Retry, Defer, PayloadError, NoHandler)
        return isinstance(error, own) or policy.is_permanent(error)

    async def alone(
        self,
        task: Task,
        session: Session,
        row: ClaimedEvent,
        payloads: Payloads,
        results: PageResults,
    ) -> None:
        """Run an event as a chunk of one: a retry, a replay, or a suspect."""
        handler, written = self._parts.registry.chunks[row["topic"]], WrittenChunks(results)
        chunk = in_memory(handler, [row], payloads)
        error = await self.run(task, session, chunk, written)
        if error is not None:
            self._requeue(written, row, error, handler)

    # -------------------------------------------------------------------------------- one run

    async def _try(
        self, task: Task, session: Session, chunk: DueChunk, part: ChunkPart, written: WrittenChunks
    ) -> BaseException | None:
        """Run one part; returns the error that rolled it back. Raises PageFailedBy."""
        if row_log.logs_starts():
            row_log.chunk_starts(chunk.info, part.first, part.size)
        started = time.monotonic()
        preambles = (self._parts.pool.preamble, self.patience(chunk.handler))
        savepoint = PageSavepoint(session, "; ".join(filter(None, preambles)))
        results = written.results
        before = results.sizes()
        origin = origin_of(part, await part.common(session))
        try:
            events = await self._call(task, chunk, part, savepoint, results, origin)
            if part.to_finish:
                await savepoint.tidy()  # read with the daemon's own role and settings
                await part.finish(session, chunk.unread)
            await savepoint.keep()
        except BaseException as error:
            if is_ours(error):
                await savepoint.abandon()
                raise
            results.cut(before)
            await savepoint.undo()
            if savepoint.broken:
                # Kept, since leaving the transaction raises another error of the driver.
                reader = chunk.handler.readers.get(part.first["type"])
                results.spoiled = PageFailedBy(part.first, reader, error)
                raise results.spoiled from error
            if session.connection.is_closed():
                raise
            if savepoint.void:
                self._parts.pool.prepare_anew()
                if self._settling.losses.excuse(part.first["id"]):
                    return await self._try(task, session, chunk, part, written)
            return error
        seconds = time.monotonic() - started
        await self._settle(written, chunk, part, events, seconds / part.size)
        if row_log.logs_ends():
            more = sum(results.sizes()[:2]) - sum(before[:2])
            told = (chunk.info, part.size, seconds, more)
            results.told.append(partial(row_log.chunk_succeeded, *told))
        return None

    async def _call(
        self,
        task: Task,
        chunk: DueChunk,
        part: ChunkPart,
        savepoint: PageSavepoint,
        results: PageResults,
        origin: tuple[Any, Parent],
    ) -> EventChunk[Any] | BlockingEventChunk[Any]:
        handler, runs = chunk.handler, chunk.handler.runs
        make: Any = BlockingEventChunk if runs.executor == "thread" else EventChunk
        size = len(part.events) if isinstance(part, HeldChunk) else part.size
        info = replace(chunk.info, size=size)
        events = make(info, partial(part.read, savepoint.session, chunk.unread))
        if isinstance(part, HeldChunk) and not part.events:
            return events  # type: ignore[no-any-return] # all are unreadable: there is no chunk
        row, parent = origin
        lend = savepoint.lender(runs.executor)
        context = EventContext(row, lend, self._parts.registry, _handler_log)
        with bound(topic=info.topic, key=info.key, correlation_id=context.correlation_id):
            calls = watch(self._parts.breakers, runs, row["id"])
            try:
                await self._parts.executions.run(
                    task, "event", row["id"], runs, events, context, self.limit(handler)
                )
                for call in calls:
                    call.succeeded()
                plan = context.plan()
            except BaseException as error:
                for call in calls:
                    call.failed(error, self._settling.policy(handler.topic, runs))
                raise
            finally:
                events.end()
                context.close()
        plans = [] if plan is None else [plan]
        Outgoing(context.drafts, context.events, plans).note(parent, results)
        return events  # type: ignore[no-any-return] # one of the two

    def patience(self, handler: ChunkHandler) -> str:
        """The statement that lets a session be idle as long as a chunk may take."""
        usual = self._parts.settings.database.idle_in_transaction_timeout.total_seconds()
        seconds = max(usual, self.limit(handler) + usual)
        return f"SET LOCAL idle_in_transaction_session_timeout = {int(seconds * 1000)}"

    # ------------------------------------------------------------------------------- outcomes

    async def _settle(
        self,
        written: WrittenChunks,
        chunk: DueChunk,
        part: ChunkPart,
        events: EventChunk[Any] | BlockingEventChunk[Any],
        seconds: float,
    ) -> None:
        own = _own_outcomes(events, chunk.unread, part)
        for number, (row, error) in enumerate(own.values(), 1):
            self._requeue(written, row, error, chunk.handler)
            if number % _AT_ONCE == 0:  # each is logged: let other tasks run
                await anyio.lowlevel.checkpoint()
        if isinstance(part, StoredChunk):
            written.settled.append((part.stretch, seconds, part.first["waited"]))
            return
        assert isinstance(part, HeldChunk)  # noqa: S101 - the only other form
        rows = part.rows if not own else [row for row in part.rows if row["id"] not in own]
        results = written.results
        results.done += [(row["id"], seconds) for row in rows]
        succeeded = Succeeded()
        results.counts += [counted(row, succeeded, seconds) for row in rows]

    def _requeue(
        self, written: WrittenChunks, row: ClaimedEvent, error: BaseException, handler: ChunkHandler
    ) -> None:
        """Let one event wait alone for its retry, or become a dead letter."""
        if row.get("position") is not None:  # an event that is not in a line has no position
            written.leaving.append(row["id"])
        reader = handler.readers.get(row["type"])
        if isinstance(error, NoHandler) and reader is None:
            # Another worker may take it; if no worker does, `events.unhandled` decides.
            written.results.requeues.append(Requeue(row["id"], "pending", delay=0.0))
            return
        outcome = self._settling.fail(error, row, reader, written.results)
        written.results.counts.append(counted(row, outcome, 0.0))


def _own_outcomes(
    events: EventChunk[Any] | BlockingEventChunk[Any], unread: UnreadEvents, part: ChunkPart
) -> dict[int, tuple[ClaimedEvent, BaseException]]:
    return {**part.unread(unread), **events.outcomes}
