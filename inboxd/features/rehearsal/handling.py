"""Runs the handlers of a rehearsed row by the code of a worker.

Promises that events, chunks and commands run, fail and are judged here as in a worker. Known limit:
it lacks knowledge that workers share, such as a release with newer plugins.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import orjson

from inboxd.api.chunks import ChunkInfo
from inboxd.api.drafts import CommandDraft, EmittedDraft
from inboxd.api.messages import Row
from inboxd.api.progress import Progress
from inboxd.api.records import EventHandler
from inboxd.commands.admission import Admission
from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.bodies import CommandBodies
from inboxd.commands.judge import CommandJudge
from inboxd.commands.leases import Expiries, ReadyCommands
from inboxd.engine.batch_folder import BatchFolder
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.engine.endpoints import Endpoints
from inboxd.engine.exclusive_run import ExclusiveRun
from inboxd.engine.execution import Executions, TimeLimit
from inboxd.engine.fleet import Fleet
from inboxd.engine.hooks import Hooks
from inboxd.engine.outcomes import is_ours
from inboxd.engine.parts import Parts
from inboxd.engine.queues import Queues
from inboxd.engine.resources import Resources
from inboxd.errors import Conflict, HandlerTimeout, UsageError
from inboxd.events.chunks.cursors import ChunkCursors
from inboxd.events.chunks.due_chunk import DueChunk
from inboxd.events.chunks.making import ChunkMaker
from inboxd.events.chunks.reading import HeldChunk, StoredChunk
from inboxd.events.chunks.run import ChunkRun
from inboxd.events.chunks.written import WrittenChunks
from inboxd.events.page_run import PageRun
from inboxd.events.settling import EventSettling, PageFailedBy, PageResults
from inboxd.features.rehearsal.report import EventEnd
from inboxd.features.rehearsal.store import RehearsedRow
from inboxd.model.outcome import Deferred, Outcome, Succeeded, Unsuccessful
from inboxd.registry.plugins import default_policy
from inboxd.registry.registry import Registry
from inboxd.settings import Settings
from inboxd.store import chunks as stored
from inboxd.store.batches import Planned
from inboxd.store.handler_connection import NOT_LEFT, PageSavepoint
from inboxd.store.pools import Pool
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.store.settlements import Parent, Requeue
from inboxd.store.workers import WorkerIdentity
from inboxd.telemetry import tally
from inboxd.telemetry.logs import bound
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.monitor import LoopMonitor

# Time limit of a handler in a debugger.
_WEEK_SECONDS = 7 * 86_400.0
_THREADS = 40


@dataclass(slots=True)
class RunResult:
    """errors: the handlers' own exceptions, as judged. result: JSON text."""

    outcome: Outcome = field(default_factory=Succeeded)
    errors: list[BaseException] = field(default_factory=list)
    sent: Sequence[tuple[CommandDraft, Parent]] = ()
    planned: Sequence[Planned] = ()
    emitted: Sequence[tuple[EmittedDraft, Parent]] = ()
    result: str | None = None
    chunk: ChunkInfo | None = None
    events: list[EventEnd] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Stage:
    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        pool: Pool,
        resources: Resources,
        *,
        unhurried: bool,
        on_stubborn: Callable[[str], None],
    ) -> None:
        """resources: open ones of the handlers. unhurried: handlers have no time limit."""
        monitor = LoopMonitor(
            stall_timeout=_WEEK_SECONDS, on_stall=on_stubborn, on_lag=lambda _seconds: None
        )
        self.executions = Executions(
            monitor,
            threads=_THREADS,
            processes=os.cpu_count() or 1,
            patience=settings.worker.stall_timeout.total_seconds(),
            on_stubborn=on_stubborn,
            resources=resources,
            time_limit=_Unhurried if unhurried else TimeLimit,
        )
        metrics = Metrics(version("inboxd"))
        breakers = Breakers(registry, metrics, on_change=_nothing)  # written, never read
        controls = Controls(_nothing, breakers)
        queues = Queues(settings.all_queues, _nothing)
        self.parts = Parts(
            settings=settings,
            pool=pool,
            handler_pool=pool,
            registry=registry,
            policy=default_policy(settings),
            metrics=metrics,
            executions=self.executions,
            hooks=Hooks((), resources, metrics),  # a rehearsal is not an attempt
            me=_identity(),
            fleet=Fleet(),
            folder=BatchFolder(pool),
            controls=controls,
            breakers=breakers,
            queues=queues,
            endpoints=Endpoints(metrics, queues, controls),
            exclusive_run=ExclusiveRun(on_change=_nothing, on_rest=_nothing),
        )
        self.progress: list[Progress] = []
        self._judge_event = _RememberingSettling(self.parts)
        self._judge_command = CommandJudge(
            self.parts,
            Admission(
                self.parts.settings,
                self.parts.queues.by_name,
                self.parts.registry,
                self.parts.controls,
                self.parts.breakers,
            ),
        )
        bodies = CommandBodies(pool, 0, ReadyCommands())
        self._attempts = CommandAttempts(self.parts, bodies, Expiries(), self._say)

    async def run(self, session: Session, found: RehearsedRow, *, alone: bool) -> RunResult:
        """alone: a chunk of one event. Raises Conflict for an event that is in no chunk yet."""
        if found.kind == "command":
            return await self._command(session, found)
        self._judge_event.errors.clear()
        chunk = None if alone else await self._chunk(session, found)
        if chunk is None:
            return await self._event(session, found.row)
        return await self._whole_chunk(session, chunk)

    def judge(self, found: RehearsedRow, error: BaseException) -> Unsuccessful:
        """Return the outcome after the database refused a sent row, or a constraint failed."""
        if found.kind == "command":
            return self._judge_command.outcome(found.row, error)
        handlers = self.parts.registry.handlers_of(found.lane, found.row["type"])
        return self._judge_event.judge(error, found.row, next(iter(handlers), None))

    # -------------------------------------------------------------------------------- commands

    async def _command(self, session: Session, found: RehearsedRow) -> RunResult:
        row, parts = found.row, self.parts
        handler = parts.registry.commands[row["type"]]
        limit = handler.timeout or parts.settings.commands.timeout.total_seconds()
        savepoint = PageSavepoint(session, parts.pool.preamble)
        ids = {"command_id": row["command_id"]}
        try:
            with bound(**ids, correlation_id=row["correlation_id"] or row["command_id"]):
                task = asyncio.current_task()
                ended = await self._attempts.make(task, handler, row, savepoint, limit, _nothing)
            if savepoint.broken:
                raise UsageError(NOT_LEFT)  # noqa: TRY301 - as `OwnTransaction` does
            await savepoint.keep()
        except BaseException as error:
            if is_ours(error):
                await savepoint.abandon()
                raise
            await savepoint.undo()
            ran = RunResult(self._judge_command.outcome(row, error), [error])
            _note_ended(ran, session, savepoint)
            return ran
        done = ended.outcome
        result = None if isinstance(done, Requeue) else done.result
        return RunResult(Succeeded(result), [], ended.sent, ended.planned, ended.emitted, result)

    def _say(self, _row: Row, progress: Progress) -> None:
        self.progress.append(progress)

    # ---------------------------------------------------------------------------------- events

    async def _event(self, session: Session, row: ClaimedEvent) -> RunResult:
        settling, results = self._judge_event, PageResults()
        run = PageRun(self.parts, settling, ChunkRun(self.parts, settling))
        try:
            await run.run(session, [row], results)
        except PageFailedBy as failed:
            judged = settling.judge(failed.error, row, failed.handler)
            ran = RunResult(judged, [failed.error])
            _note_ended(ran, session)
            return ran
        outcome = results.counts[-1].outcome
        return _result_of(results, outcome, settling.errors)

    async def _whole_chunk(self, session: Session, chunk: DueChunk) -> RunResult:
        settling, written = self._judge_event, WrittenChunks()
        first = chunk.whole.first
        reader = chunk.handler.readers.get(first["type"])
        run = ChunkRun(self.parts, settling)
        try:
            error = await run.run(asyncio.current_task(), session, chunk, written)
        except PageFailedBy as failed:
            error = failed.error
        outcome: Outcome = Succeeded()
        remarks = []
        if isinstance(error, HandlerTimeout) and chunk.handler.may_split and chunk.whole.size > 1:
            outcome = Deferred(delay=0.0)
            settling.errors.append(error)
            remarks.append(f"A worker would run the chunk again at once, in halves: {error}")
        elif error is not None:
            outcome = settling.judge(error, first, reader)
        ran = _result_of(written.results, outcome, settling.errors)
        ran.chunk, ran.remarks = chunk.info, remarks
        ran.events = [_event_end(each) for each in written.results.requeues]
        if session.connection.is_closed():
            _note_ended(ran, session)
        return ran

    async def _chunk(self, session: Session, found: RehearsedRow) -> DueChunk | None:
        row, parts = found.row, self.parts
        handler = parts.registry.chunks.get(found.lane)
        if handler is None or found.status != "waiting":
            return None
        event, key = f"event {row['id']}", row["ordering_key"] or ""
        alone = "; --alone runs it as a chunk of one"
        if found.position is None:
            raise Conflict(f"{event} has just arrived, and is in no chunk yet{alone}")
        lines = await stored.open_lines(session, found.lane, [row["ordering_key"]], 1, due=False)
        if not lines:
            raise Conflict(f"the line of {event} (key {key!r}) has no waiting head{alone}")
        (line,) = lines
        maker = ChunkMaker(
            parts.settings.events,
            ChunkCursors(parts.controls),
            handler,
            (found.lane, row["bucket"]),
        )
        chunk = await maker.at_head(session, line, maker.cap(line))
        if found.position > _last_position(chunk):
            raise Conflict(
                f"{event} is behind the next chunk of its line (key {key!r}): rehearse event "
                f"{line.id}, which is in that chunk{alone}"
            )
        return chunk


class _Unhurried(TimeLimit):
    """A time limit for a handler in a debugger: at least a week."""

    __slots__ = ()

    def __init__(self, seconds: float, *others: Any) -> None:
        super().__init__(max(seconds, _WEEK_SECONDS), *others)


class _RememberingSettling(EventSettling):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.errors: list[BaseException] = []

    def judge(
        self, error: BaseException, row: ClaimedEvent, handler: EventHandler | None
    ) -> Unsuccessful:
        self.errors.append(error)
        return super().judge(error, row, handler)


def _result_of(
    results: PageResults, outcome: Outcome, errors: Sequence[BaseException]
) -> RunResult:
    return RunResult(outcome, [*errors], results.sent, results.planned, results.emitted)


def _event_end(each: Requeue) -> EventEnd:
    error = None if each.error is None else orjson.loads(each.error)["error"]
    ended: tally.Outcome = "failed" if each.status == "failed" else "retried"
    return EventEnd(id=each.id, outcome=ended if each.spent else "deferred", error=error)


def _last_position(chunk: DueChunk) -> int:
    part = chunk.whole
    if isinstance(part, HeldChunk):
        return stored.position_of(part.rows[-1])
    assert isinstance(part, StoredChunk)  # noqa: S101 - there are two forms
    return part.stretch.last


def _note_ended(ran: RunResult, session: Session, savepoint: PageSavepoint | None = None) -> None:
    if savepoint is not None and not savepoint.broken:
        return
    if session.connection.is_closed():
        ran.remarks.append(
            "The session has ended: the handler closed it, or the server did, perhaps after an "
            "idle time in its transaction above --idle-timeout. All its writes are undone."
        )
    else:
        ran.remarks.append(
            "The handler ended the transaction itself, in a way that inboxd does not recognise: "
            "its earlier writes to the database may be committed."
        )


def _identity() -> WorkerIdentity:
    host, pid = socket.gethostname(), os.getpid()
    return WorkerIdentity(uuid4(), "rehearsal", host, pid, version("inboxd"), (), (), (), "")


def _nothing() -> None:
    """Do nothing: a rehearsal wakes no part of a worker."""
