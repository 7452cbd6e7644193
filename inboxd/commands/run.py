"""The run of one command: decode, handle, settle.

The handler's effects, the rows that it sent and its settlement commit together, in the command's
own transaction if the handler used one (promise 2); after a lost lease nothing is written (promise
3). Known limit: effects outside the database happen at least once (`ctx.idempotency_key`). *See:*
`runners`, before it; `unwritten` and `inboxd.store.handler_connection`, after it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Literal, TypeAlias, cast

import anyio.from_thread

from inboxd.api.context import CommandContext, Results
from inboxd.api.payload import decode, decode_event_command
from inboxd.api.progress import Say
from inboxd.api.records import CommandHandler
from inboxd.commands.bodies import CommandBodies
from inboxd.commands.ended import EndedCommand, cancelled, fell_back, succeeded
from inboxd.commands.judge import CommandJudge
from inboxd.commands.key_turns import KeyTurn, KeyTurnDue
from inboxd.commands.settler import Settler
from inboxd.commands.step_results import step_result
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine import row_log
from inboxd.engine.execution import HandlerStopped, Task
from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.outcomes import after, is_ours, name, requeue
from inboxd.engine.parts import Parts
from inboxd.engine.target_calls import watch
from inboxd.engine.versions import LeftToPeer
from inboxd.errors import HandlerTimeout, InboxdError, LeaseLost, Reject, TooNew
from inboxd.model.lineage import story_age, told_time
from inboxd.model.outcome import explain
from inboxd.store import batches, commands, emitted
from inboxd.store.connections import VOID, is_passing
from inboxd.store.handler_connection import OwnTransaction, PageSavepoint
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from inboxd.telemetry import tally
from inboxd.telemetry.logs import bound, get_logger

_log = get_logger(__name__)
_handler_log = get_logger("inboxd.handler")

# Seconds until the next run of a command that an outage of inboxd's own resources has stopped.
_LATER_SECONDS = 1.0

CANCELLED = "its cancellation was requested"


class _Later(InboxdError):
    """A failure that the command did not cause: it runs again soon, without spending an attempt."""


# The end of a run. "left": given to another worker, which should claim first from its lane.
RunEnd: TypeAlias = Literal["succeeded", "unsuccessful", "left"]


class CommandRun:
    def __init__(
        self,
        parts: Parts,
        outcomes: UnwrittenOutcomes,
        settler: Settler,
        judge: CommandJudge,
        bodies: CommandBodies,
        *,
        say: Say,
        keeps_position: Callable[[str], bool],
    ) -> None:
        """keeps_position: whether a command that runs again keeps its position in its line."""
        self._parts = parts
        self._outcomes = outcomes
        self._settler = settler
        self._judge = judge
        self._bodies = bodies
        self._say = say
        self._keeps_position = keeps_position
        self._losses = LossExemptions(parts.settings.worker.crash_limit)
        self._registry = parts.registry
        self._timeout = parts.settings.commands.timeout.total_seconds()
        idle = parts.settings.database.idle_in_transaction_timeout
        self._idle_limit = idle.total_seconds()
        self._results: Results = partial(step_result, parts)
        self._blocking_results: Results = partial(anyio.from_thread.run, self._results)
        # The reason why no handler may begin. Commands whose payload is being read cannot be
        # stopped otherwise.
        self._halted: str | None = None

    def go_on(self) -> None:
        self._halted = None

    def stop_all(self, reason: str) -> None:
        """Stop all running commands, and let none begin until `go_on`."""
        self._halted = reason
        for (kind, _), limit in list(self._parts.executions.limits.items()):
            if kind == "command":
                limit.stop(HandlerStopped(reason))

    def cancel(self, ids: frozenset[int]) -> None:
        for row_id in ids:
            limit = self._parts.executions.limits.get(("command", row_id))
            if limit is not None:
                limit.stop(HandlerStopped(CANCELLED))

    def drop(self, row: ClaimedCommand) -> None:
        self._bodies.done(row)

    async def run(self, task: Task, row: ClaimedCommand, on_wait: Callable[[], None]) -> RunEnd:
        handler = self._registry.commands[row["type"]]
        limit = handler.timeout or self._timeout
        own = OwnTransaction(self._parts.handler_pool, limit, partial(self._extend, row["id"]))
        turn = KeyTurn(self._parts, row)
        started = monotonic()
        end: RunEnd = "unsuccessful"
        with bound(
            command_id=row["command_id"], correlation_id=row["correlation_id"] or row["command_id"]
        ):
            try:
                if row["body_id"] is not None and not self._bodies.is_read(row):
                    on_wait()
                if await self._attempt(task, handler, row, own, limit, on_wait, turn):
                    end = "succeeded"
            except LeaseLost as error:
                _log.warning(
                    "lease lost; nothing was written",
                    type=row["type"],
                    id=row["id"],
                    reason=str(error),
                )
            except BaseException as error:
                if is_ours(error):
                    raise
                cause = self._cause(row, own, error)
                await own.end()
                if own.starved:
                    await turn.give_back()
                end = await self._failed(row, cause, monotonic() - started)
            finally:
                await own.end()
                if row["body_id"] is not None:
                    self._bodies.done(row)
        return end

    def _extend(self, row_id: int, seconds: float) -> None:
        limit = self._parts.executions.limits.get(("command", row_id))
        if limit is not None:
            limit.extend(seconds)

    def _cause(
        self, row: ClaimedCommand, own: OwnTransaction, error: BaseException
    ) -> BaseException:
        """The error, or its cause: no connection, a lost or idle one, void statements."""
        if isinstance(error, HandlerStopped | KeyTurnDue | _Later):
            return error
        lost = own.held is not None and own.held.connection.is_closed()
        if own.starved and not lost:
            return _Later(f"it got no connection: {explain(error).error}")
        if lost and own.idle >= self._idle_limit:
            return HandlerTimeout(
                f"its transaction stood idle for {own.idle:.0f} s, and "
                f"database.idle_in_transaction_timeout ({self._idle_limit:g} s) ended it: do slow "
                "work before the first statement, or raise that setting"
            )
        if lost and self._losses.excuse(row["id"]):
            return _Later(f"its connection was lost: {explain(error).error}")
        if own.void:
            self._parts.handler_pool.prepare_anew()
            if self._losses.excuse(row["id"]):
                return _Later(f"a prepared statement did not fit: {explain(error).error}")
        return error

    async def _attempt(
        self,
        task: Task,
        handler: CommandHandler,
        row: ClaimedCommand,
        own: OwnTransaction,
        limit: float,
        on_wait: Callable[[], None],
        turn: KeyTurn,
    ) -> bool:
        ended = await self._fall_back(handler, row)
        if ended is None:
            take = partial(self._take, turn)
            ended = await self.execute(task, handler, row, own, limit, on_wait, take)
        written = True
        if own.held is None and row["ordering_key"] is not None and ended.writes:
            # The database may refuse these rows: the key's next command starts only after the
            # write.
            written = await self._outcomes.see(ended)
        elif own.held is None:
            await self._outcomes.add(ended)
        else:
            if row["ordering_key"] is not None:
                await self._outcomes.of_key(row)
            await self._commit(own, ended)
        seconds = cast("Settlement", ended.outcome).seconds
        self._count(row, "succeeded", seconds)
        if not ended.writes:
            self._end_story(row, seconds)
        return written

    async def _take(self, turn: KeyTurn) -> None:
        """Take the turn of the command's key. Raises KeyTurnDue if the turn is later."""
        try:
            await turn.take()
        except KeyTurnDue:
            raise
        except Exception as error:
            if not is_passing(error):
                raise
            raise _Later(
                f"the rate of its key could not be read: {explain(error).error}"
            ) from error

    async def _fall_back(self, handler: CommandHandler, row: ClaimedCommand) -> EndedCommand | None:
        """The outcome of a command whose breaker is open, if a fallback is sent instead."""
        found = self._parts.breakers.falls_back(row["queue"], handler.type, row["id"])
        if found is None:
            return None
        type_, breaker = found
        raw = row["payload"] if row["body_id"] is None else await self._body(row)
        self._parts.metrics.breaker_fallbacks.labels(breaker).inc()
        route = self._registry.resolve(type_)
        return fell_back(row, route, breaker, "null" if raw is None else raw)

    async def execute(
        self,
        task: Task,
        handler: CommandHandler,
        row: ClaimedCommand,
        part: OwnTransaction | PageSavepoint,
        limit: float,
        on_wait: Callable[[], None] | None = None,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> EndedCommand:
        """Raises any failure. begin: awaited just before the handler begins."""
        started = monotonic()
        if row["late"]:
            raise Reject("its deadline passed before it could start")
        lend = part.lender(handler.executor)
        results = self._blocking_results if handler.executor == "thread" else self._results
        context = CommandContext(row, lend, self._registry, _handler_log, results, self._say)
        payload = await self._payload(handler, row)
        if begin is not None and self._halted is None:
            await begin()
        if self._halted is not None:
            raise HandlerStopped(self._halted)
        if row_log.logs_starts():
            row_log.command_starts(row)
        calls = watch(self._parts.breakers, handler, row["id"], row["queue"])
        try:
            value = await self._parts.executions.run(
                task, "command", row["id"], handler, payload, context, limit, on_wait
            )
        except BaseException as error:
            for call in calls:
                call.failed(error, handler.retry or self._parts.policy)
            raise
        finally:
            context.close()
            part.close()
        for call in calls:
            call.succeeded()
        part.check()
        return succeeded(row, context, value, monotonic() - started)

    async def _commit(self, own: OwnTransaction, ended: EndedCommand) -> None:
        fold: list[int] = []

        async def settle(held: Session, ending: str) -> None:
            me = self._parts.me.id
            try:
                if ended.sent or ended.planned:
                    fold.extend(await batches.write(held, ended.sent, ended.planned))
                if ended.emitted:
                    await emitted.write(held, ended.emitted)
                await commands.settle_own(held, me, settlement, ending)
            except Exception as error:
                if isinstance(error, VOID):
                    self._parts.handler_pool.prepare_anew()
                # A lock timeout or a lost session may be the fault of an operator, of an outage, or
                # of the command's own deferred trigger.
                if not is_passing(error) or not self._losses.excuse(settlement.id):
                    raise  # for example a deferred constraint
                # Not the command's failure. If the transaction did commit, the fence stops the next
                # run.
                raise _Later(f"it could not be settled: {explain(error).error}") from error

        settlement = cast("Settlement", ended.outcome)
        await own.commit(settle)
        self._parts.folder.on_settled((ended.row,))
        for batch in fold:
            self._parts.folder.note(batch)
        if row_log.logs_ends():
            sent = len(ended.sent) + len(ended.emitted)
            row_log.command_ended(ended.row, "succeeded", settlement.seconds, sent)

    async def _payload(self, handler: CommandHandler, row: ClaimedCommand) -> object:
        raw = row["payload"]
        if row["body_id"] is not None:
            raw = await self._body(row)
        raw = "null" if raw is None else raw
        if handler.event_type is not None:
            return decode_event_command(handler, raw, row["schema_version"], row["attempts"])
        return decode(handler, raw, row["schema_version"])

    async def _body(self, row: ClaimedCommand) -> str | None:
        try:
            return await self._bodies.take(row)
        except Exception as error:
            if not is_passing(error):
                raise
            raise _Later(f"its payload could not be read: {explain(error).error}") from error

    async def _failed(self, row: ClaimedCommand, error: BaseException, seconds: float) -> RunEnd:
        if isinstance(error, HandlerStopped):
            await self._stopped(row, error, seconds)
            return "unsuccessful"
        if isinstance(error, KeyTurnDue):
            again = Requeue(
                row["id"], "pending", delay=error.seconds, fence=row["fence"], unrun=True
            )
            self._outcomes.hand_over(EndedCommand(row, again))
            return "unsuccessful"
        if isinstance(error, _Later):
            _log.warning("command is given back", type=row["type"], id=row["id"], reason=str(error))
            again = Requeue(
                row["id"], "pending", delay=_LATER_SECONDS, fence=row["fence"], unrun=True
            )
            self._outcomes.hand_over(EndedCommand(row, self._with_position(row, again)))
            return "unsuccessful"
        outcome = self._judge.outcome(row, error)
        again = requeue(outcome, row, self._parts.me, row["fence"])
        if isinstance(error, TooNew):  # the handler never began, so the command stays a suspect
            again = replace(again, unrun=True)
        told = self._settler.failed(row, outcome, error)
        await self._outcomes.add(EndedCommand(row, self._with_position(row, again), failed=told))
        self._count(row, name(outcome), seconds)
        return "left" if isinstance(outcome, LeftToPeer) else "unsuccessful"

    def _with_position(self, row: ClaimedCommand, again: Requeue) -> Requeue:
        """Let a command that runs again keep its position, if its queue keeps order."""
        held = row["ordering_key"] is None or self._keeps_position(row["queue"])
        return again if held or again.status != "pending" else replace(again, status="waiting")

    async def _stopped(self, row: ClaimedCommand, error: HandlerStopped, seconds: float) -> None:
        """Cancel the stopped command, or give it back without spending an attempt."""
        if error.reason == CANCELLED:
            await self._outcomes.add(cancelled(row, seconds))
            self._count(row, "cancelled", seconds)
        else:
            again = Requeue(row["id"], "pending", fence=row["fence"])
            self._outcomes.hand_over(EndedCommand(row, self._with_position(row, again)))
        _log.info("command was stopped", type=row["type"], id=row["id"], reason=error.reason)

    def _count(self, row: ClaimedCommand, outcome: tally.Outcome, seconds: float) -> None:
        self._parts.metrics.tally.add(
            "command",
            row["type"],
            outcome,
            seconds,
            row["waited"],
            row["queue"],
            row["age"],
            after(row),
            row["tenant"],
        )

    def _end_story(self, row: ClaimedCommand, seconds: float) -> None:
        """Count the story that ended with this command, which sent nothing, and its duration."""
        age = story_age(row["correlation_id"], told_time(row["command_id"]), row["age"])
        if age is not None:
            self._parts.metrics.tally.end_story("command", row["type"], age + seconds)
