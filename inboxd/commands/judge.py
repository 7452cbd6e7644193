"""Judges the end of a command whose attempt failed, or whose outcome the database refused.

There are six ends: cancelled; expired; given back, since the worker stops it; due later, by the
rate of its key; given back, since resources of inboxd failed; and a failure of its own, which the
handler's retry policy judges. Nothing is awaited or written here. *See:* `run`, `settler`.
"""

from dataclasses import replace

from inboxd.commands.admission import Admission
from inboxd.commands.ended import CANCELLED, EndedCommand, Expired, Later, cancelled, expired
from inboxd.commands.key_turns import KeyTurnDue
from inboxd.engine import row_log
from inboxd.engine.execution import HandlerStopped
from inboxd.engine.forgiveness import LossExemptions
from inboxd.engine.hooks import failed_attempt
from inboxd.engine.judge import Judge
from inboxd.engine.outcomes import name, requeue, site_of
from inboxd.engine.parts import Parts
from inboxd.engine.versions import LeftToPeer
from inboxd.errors import HandlerTimeout, TooNew
from inboxd.model.backoff import override
from inboxd.model.outcome import Dead, Unsuccessful, explain
from inboxd.store.connections import VOID, is_passing
from inboxd.store.handler_connection import OwnTransaction
from inboxd.store.rows import ClaimedCommand
from inboxd.store.settlements import Requeue
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds until the next run of a command that an outage of inboxd's own resources has stopped.
_LATER_SECONDS = 1.0


class CommandJudge:
    def __init__(self, parts: Parts, admission: Admission) -> None:
        self._judge = Judge(parts)
        self._admission = admission
        self._commands = parts.registry.commands
        self._default = parts.policy
        self._me = parts.me
        self._hooks = parts.hooks
        self._handler_pool = parts.handler_pool
        self._losses = LossExemptions(parts.settings.worker.crash_limit)
        idle = parts.settings.database.idle_in_transaction_timeout
        self._idle_limit = idle.total_seconds()

    def outcome(self, row: ClaimedCommand, error: BaseException) -> Unsuccessful:
        """By the handler's retry policy, with the command's own attempts."""
        handler = self._commands[row["type"]]
        policy = handler.retry or self._default
        if row["max_attempts"] is not None:
            policy = override(policy, {"attempts": row["max_attempts"]})
        return self._judge.outcome(error, row, handler, policy)

    def end_of(
        self,
        row: ClaimedCommand,
        error: BaseException,
        own: OwnTransaction,
        seconds: float,
        *,
        settling: bool,
    ) -> EndedCommand:
        """Call it before `own` ends. settling: the handler ended well, but was not settled."""
        if isinstance(error, HandlerStopped):
            return self._stopped(row, error.reason, seconds)
        if isinstance(error, Expired):
            return expired(row)
        if isinstance(error, KeyTurnDue):
            return EndedCommand(row, _unrun(row, error.seconds))
        excuse = self._excuse(row, error, own, settling=settling)
        if excuse is not None:
            _log.warning("command is given back", type=row["type"], id=row["id"], reason=excuse)
            again = self._with_position(row, _unrun(row, _LATER_SECONDS))
            return EndedCommand(row, again)
        if self._idled(own):
            error = HandlerTimeout(
                f"its transaction was idle for {own.idle:.0f} s, and "
                f"database.idle_in_transaction_timeout ({self._idle_limit:g} s) ended it: do slow "
                "work before the first statement, or raise that setting"
            )
        return self._unsuccessful(row, self.outcome(row, error), error, seconds)

    def refused(self, ended: EndedCommand, error: Exception) -> EndedCommand:
        """The end of a command whose outcome the database refuses: a result, a time or a child."""
        row = ended.row
        if isinstance(ended.outcome, Requeue):  # a dead letter has the least to refuse
            outcome: Unsuccessful = Dead(explain(error, site_of(row, None)))
            row_log.did_not_succeed(row, outcome, error, "")
        else:
            outcome = self.outcome(row, error)
        return self._unsuccessful(row, outcome, error, ended.seconds)

    def _stopped(self, row: ClaimedCommand, reason: str, seconds: float) -> EndedCommand:
        """Cancel the stopped command, or give it back without spending an attempt."""
        _log.info("command was stopped", type=row["type"], id=row["id"], reason=reason)
        if reason == CANCELLED:
            return cancelled(row, seconds)
        again = Requeue(row["id"], "pending", fence=row["fence"])
        return EndedCommand(row, self._with_position(row, again))

    def _excuse(
        self, row: ClaimedCommand, error: BaseException, own: OwnTransaction, *, settling: bool
    ) -> str | None:
        """Why a failure is not the command's: no connection, a lost one, void statements."""
        if isinstance(error, Later):
            return str(error)
        if own.void or (settling and isinstance(error, VOID)):
            self._handler_pool.prepare_anew()
        lost = _is_lost(own)
        if own.starved and not lost:
            return f"it got no connection: {explain(error).error}"
        if settling and is_passing(error):
            # A lock timeout or a lost session may be the fault of an operator, of an outage, or of
            # the command's own deferred trigger. If the transaction did commit, the fence stops the
            # next run.
            why = "it could not be settled"
        elif self._idled(own):
            return None
        elif lost:
            why = "its connection was lost"
        elif own.void:
            why = "a prepared statement did not fit"
        else:
            return None  # for example a deferred constraint
        return f"{why}: {explain(error).error}" if self._losses.excuse(row["id"]) else None

    def _idled(self, own: OwnTransaction) -> bool:
        """Whether the server ended the transaction, since the handler left it idle."""
        return _is_lost(own) and own.idle >= self._idle_limit

    def _unsuccessful(
        self, row: ClaimedCommand, outcome: Unsuccessful, error: BaseException, seconds: float
    ) -> EndedCommand:
        again = requeue(outcome, row, self._me, row["fence"])
        if isinstance(error, TooNew):  # the handler never began, so the command stays a suspect
            again = replace(again, unrun=True)
        failed = None
        if self._hooks.want_failures:
            handler = self._commands.get(row["type"])
            failed = failed_attempt(self._me, row, handler, outcome, error)
        return EndedCommand(
            row,
            self._with_position(row, again),
            failed=failed,
            counts=name(outcome),
            seconds=seconds,
            end="left" if isinstance(outcome, LeftToPeer) else "unsuccessful",
        )

    def _with_position(self, row: ClaimedCommand, again: Requeue) -> Requeue:
        """Let a command that runs again keep its position, if its queue keeps order."""
        held = row["ordering_key"] is None or self._admission.keeps_order(row["queue"])
        return again if held or again.status != "pending" else replace(again, status="waiting")


def _is_lost(own: OwnTransaction) -> bool:
    return own.held is not None and own.held.connection.is_closed()


def _unrun(row: ClaimedCommand, seconds: float) -> Requeue:
    return Requeue(row["id"], "pending", delay=seconds, fence=row["fence"], unrun=True)
