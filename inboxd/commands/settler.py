"""Writes outcomes of commands in groups, for commands that did not use the database themselves.

There is no timer: outcomes that were handed over during a write are written together by the next
one. Children are inserted only for rows whose settlement matched, in the same transaction (promise
3); a write that fails for one row is repeated row by row; outcomes are kept while the database is
away. Known limits: while an emitted event waits for its dedup key (at most
`database.lock_timeout`), other outcomes wait, too; commands whose outcomes are not written when the
process dies run again. *See:* `unwritten`, before it; `inboxd.store.commands`, after it.
"""

from collections.abc import Container, Iterable, Sequence
from contextlib import AsyncExitStack
from time import monotonic

import anyio

from inboxd.api.hooks import FailedAttempt
from inboxd.commands.after import AfterEnds
from inboxd.commands.ended import EndedCommand
from inboxd.commands.judge import CommandJudge
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine import row_log
from inboxd.engine.hooks import failed_attempt
from inboxd.engine.outcomes import requeue, site_of
from inboxd.engine.parts import Parts
from inboxd.errors import DedupKeyHeld
from inboxd.model.outcome import Dead, Unsuccessful, explain
from inboxd.store import batches, commands, emitted, wakeups
from inboxd.store.connections import is_passing
from inboxd.store.pools import lend, transaction
from inboxd.store.rows import ClaimedCommand
from inboxd.store.settlements import Requeue, Settlement
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAUSE = 0.5


class Settler:
    """Writes outcomes; `run` in the task group of the incarnation."""

    def __init__(
        self,
        parts: Parts,
        outcomes: UnwrittenOutcomes,
        judge: CommandJudge,
        after: AfterEnds,
    ) -> None:
        self._parts = parts
        self._outcomes = outcomes
        self._judge = judge
        self._after = after

    def failed(
        self, row: ClaimedCommand, outcome: Unsuccessful, error: BaseException
    ) -> FailedAttempt | None:
        """The report of an attempt, given to hooks after it is written; None: no hook wants it."""
        parts = self._parts
        if not parts.hooks.want_failures:
            return None
        handler = parts.registry.commands.get(row["type"])
        return failed_attempt(parts.me, row, handler, outcome, error)

    async def run(self) -> None:
        while True:
            page, written = await self._outcomes.take(), 0
            try:
                await self._write_all(page)
                written = len(page)
            finally:
                self._outcomes.taken(written)
                self._after.written()

    async def _write_all(self, page: list[EndedCommand]) -> None:
        todo = [page]
        while todo:
            part = todo.pop()
            try:
                await self._insist(part)
            except DedupKeyHeld as error:
                todo += reversed(await self._without(part, error))
            except Exception as error:  # noqa: BLE001 - handled below
                if len(part) > 1:
                    todo += [[ended] for ended in reversed(part)]  # the order of keys is kept
                else:
                    await self._refused(part[0], error)

    async def _without(
        self, part: list[EndedCommand], error: DedupKeyHeld
    ) -> list[list[EndedCommand]]:
        """Write the others first; each returned emitter waits only for its own key."""
        emitters = [ended for ended in part if ended.emitted]
        if others := [ended for ended in part if not ended.emitted]:
            await self._write_all(others)
        if len(emitters) > 1:
            return [[ended] for ended in emitters]
        await self._refused(emitters[0], error)
        return []

    async def _insist(self, part: list[EndedCommand]) -> None:
        """Write outcomes, and wait while the database is away. Raises the database's refusal."""
        while True:
            try:
                await self._write(part)
            except Exception as error:
                if not is_passing(error):
                    raise
            else:
                return
            _log.warning("settlements wait for the database", rows=len(part))
            await anyio.sleep(_PAUSE)

    async def _write(self, part: list[EndedCommand]) -> None:
        started = monotonic()
        me = self._parts.me.id
        ends = [e.outcome for e in part if isinstance(e.outcome, Settlement)]
        requeues = [e.outcome for e in part if isinstance(e.outcome, Requeue)]
        pool = self._parts.pool
        async with lend(pool) as session, AsyncExitStack() as stack:
            # A single statement is its own transaction, which saves two round trips.
            if requeues or any(e.writes for e in part) or pool.preamble:
                await stack.enter_async_context(transaction(pool, session))
            held = await commands.end(session, me, ends, requeues)
            sent = [child for e in part if e.outcome.id in held for child in e.sent]
            planned = [plan for e in part if e.outcome.id in held for plan in e.planned]
            fold = await batches.write(session, sent, planned)
            events = [event for e in part if e.outcome.id in held for event in e.emitted]
            await emitted.write(session, events)
            if self._concerns_others(requeues):
                await wakeups.notify(session, "commands")
        self._parts.folder.on_settled(e.row for e in part)
        for batch in fold:
            self._parts.folder.note(batch)
        if requeues:
            self._after.requeued()
            self._report(part, held)
        if row_log.logs_ends():
            _log_ends(part, held)
        if lost := len(part) - len(held):
            self._outcomes.not_written(e.outcome.id for e in part if e.outcome.id not in held)
            _log.warning("lease lost before the settlement; nothing was written", commands=lost)
        self._parts.metrics.settle_duration.labels("command").observe(monotonic() - started)

    def _report(self, part: Iterable[EndedCommand], held: Container[int]) -> None:
        for each in part:
            if each.failed is not None and each.outcome.id in held:
                self._parts.hooks.report(each.failed)

    def _concerns_others(self, requeues: Sequence[Requeue]) -> bool:
        """Whether to notify other workers: rows are claimable at once, or unreadable here."""
        fleet = self._parts.fleet
        return (fleet.differs and bool(requeues)) or (
            fleet.peers > 0 and any(_given_back(each) for each in requeues)
        )

    async def _refused(self, ended: EndedCommand, error: Exception) -> None:
        """Requeue a command whose outcome the database refuses: a result, a time or a child."""
        self._outcomes.not_written([ended.outcome.id])
        outcome = self._judge.outcome(ended.row, error)
        instead = requeue(outcome, ended.row, self._parts.me, ended.outcome.fence)
        if isinstance(ended.outcome, Requeue):
            # The requeue was refused, too: write a dead letter, which has the least to refuse.
            dead = Dead(explain(error, site_of(ended.row, None)))
            instead = requeue(dead, ended.row, self._parts.me, ended.outcome.fence)
        try:
            told = self.failed(ended.row, outcome, error)
            await self._insist([EndedCommand(ended.row, instead, failed=told)])
        except Exception as again:  # noqa: BLE001 - logged
            reason = explain(again).error
            _log.error("an outcome cannot be written", id=ended.row["id"], reason=reason)


def _log_ends(part: Iterable[EndedCommand], held: Container[int]) -> None:
    for ended in part:
        outcome = ended.outcome
        if isinstance(outcome, Settlement) and outcome.id in held:
            sent = len(ended.sent) + len(ended.emitted)
            row_log.command_ended(ended.row, outcome.status, outcome.seconds, sent)


def _given_back(each: Requeue) -> bool:
    """Whether a row is claimable at once, without an INSERT that notifies other workers."""
    return each.status != "failed" and each.delay is None and each.run_at is None
