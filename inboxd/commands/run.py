"""The run of one command: an attempt, the judgement of its end, and the write of it.

The handler's effects, the rows that it sent and its settlement commit together, in the command's
own transaction if the handler used one (promise 2); after a lost lease nothing is written (promise
3). Known limit: effects outside the database happen at least once (`ctx.idempotency_key`). *See:*
`runners`, before it; `attempts`, `unwritten` and `inboxd.store.handler_connection`, after it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Literal, TypeAlias, cast

from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.ended import CANCELLED, EndedCommand, Later, cancelled
from inboxd.commands.judge import CommandJudge
from inboxd.commands.key_turns import KeyTurnDue, KeyTurns
from inboxd.commands.settler import Settler
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine import row_log
from inboxd.engine.execution import HandlerStopped, Task
from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.outcomes import after, is_ours, name, requeue
from inboxd.engine.parts import Parts
from inboxd.engine.versions import LeftToPeer
from inboxd.errors import HandlerTimeout, LeaseLost, TooNew
from inboxd.model.lineage import story_age, told_time
from inboxd.model.outcome import explain
from inboxd.store import batches, commands, emitted
from inboxd.store.connections import VOID, is_passing
from inboxd.store.handler_connection import OwnTransaction
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from inboxd.telemetry import tally
from inboxd.telemetry.logs import bound, get_logger

_log = get_logger(__name__)

# Seconds until the next run of a command that an outage of inboxd's own resources has stopped.
_LATER_SECONDS = 1.0

# The end of a run. "left": given to another worker, which should claim first from its lane.
RunEnd: TypeAlias = Literal["succeeded", "unsuccessful", "left"]


class CommandRun:
    def __init__(
        self,
        parts: Parts,
        outcomes: UnwrittenOutcomes,
        settler: Settler,
        judge: CommandJudge,
        attempts: CommandAttempts,
        *,
        keeps_position: Callable[[str], bool],
    ) -> None:
        """keeps_position: whether a command that runs again keeps its position in its line."""
        self._parts = parts
        self._outcomes = outcomes
        self._settler = settler
        self._judge = judge
        self._attempts = attempts
        self._turns = KeyTurns(parts.pool, parts.queues, parts.metrics)
        self._keeps_position = keeps_position
        self._losses = LossExemptions(parts.settings.worker.crash_limit)
        self._registry = parts.registry
        self._timeout = parts.settings.commands.timeout.total_seconds()
        idle = parts.settings.database.idle_in_transaction_timeout
        self._idle_limit = idle.total_seconds()

    async def run(self, task: Task, row: ClaimedCommand, on_wait: Callable[[], None]) -> RunEnd:
        handler = self._registry.commands[row["type"]]
        limit = handler.timeout or self._timeout
        extend = partial(self._attempts.extend, row["id"])
        own = OwnTransaction(self._parts.handler_pool, limit, extend)
        turn = self._turns.of(row)
        started = monotonic()
        end: RunEnd = "unsuccessful"
        with bound(
            command_id=row["command_id"], correlation_id=row["correlation_id"] or row["command_id"]
        ):
            try:
                ended = await self._attempts.make(task, handler, row, own, limit, on_wait, turn)
                if await self._write(ended, own):
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
                if turn is not None and own.starved:
                    await turn.give_back()
                end = await self._failed(row, cause, monotonic() - started)
            finally:
                await own.end()
        return end

    def _cause(
        self, row: ClaimedCommand, own: OwnTransaction, error: BaseException
    ) -> BaseException:
        """The error, or its cause: no connection, a lost or idle one, void statements."""
        if isinstance(error, HandlerStopped | KeyTurnDue | Later):
            return error
        lost = own.held is not None and own.held.connection.is_closed()
        if own.starved and not lost:
            return Later(f"it got no connection: {explain(error).error}")
        if lost and own.idle >= self._idle_limit:
            return HandlerTimeout(
                f"its transaction was idle for {own.idle:.0f} s, and "
                f"database.idle_in_transaction_timeout ({self._idle_limit:g} s) ended it: do slow "
                "work before the first statement, or raise that setting"
            )
        if lost and self._losses.excuse(row["id"]):
            return Later(f"its connection was lost: {explain(error).error}")
        if own.void:
            self._parts.handler_pool.prepare_anew()
            if self._losses.excuse(row["id"]):
                return Later(f"a prepared statement did not fit: {explain(error).error}")
        return error

    async def _write(self, ended: EndedCommand, own: OwnTransaction) -> bool:
        """Whether a handler's outcome was written, or waits for its write."""
        row, written = ended.row, True
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
                raise Later(f"it could not be settled: {explain(error).error}") from error

        settlement = cast("Settlement", ended.outcome)
        await own.commit(settle)
        self._parts.folder.on_settled((ended.row,))
        for batch in fold:
            self._parts.folder.note(batch)
        if row_log.logs_ends():
            sent = len(ended.sent) + len(ended.emitted)
            row_log.command_ended(ended.row, "succeeded", settlement.seconds, sent)

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
        if isinstance(error, Later):
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
