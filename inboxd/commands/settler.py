"""Writes the ends of commands: in the command's own transaction, or in groups.

A group has the outcomes of commands that did not use the database themselves. There is no timer:
outcomes that were handed over during a write are written together by the next one. Children are
inserted only for rows whose settlement matched, in the same transaction (promise 3); a write that
fails for one row is repeated row by row; outcomes are kept while the database is away. An execution
is counted when its outcome is written; one whose lease was lost counts where it runs again. Known
limits: while an emitted event waits for its dedup key (at most `database.lock_timeout`), other
outcomes wait, too; commands whose outcomes are not written when the process dies run again. *See:*
`run` and `unwritten`, before it; `inboxd.store.commands`, after it.
"""

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from time import monotonic
from typing import cast

import anyio

from inboxd.commands.after import AfterEnds
from inboxd.commands.ended import EndedCommand, RunEnd
from inboxd.commands.judge import CommandJudge
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine import row_log
from inboxd.engine.outcomes import after
from inboxd.engine.parts import Parts
from inboxd.errors import DedupKeyHeld
from inboxd.model.lineage import story_age, told_time
from inboxd.model.outcome import explain
from inboxd.store import batches, commands, emitted, wakeups
from inboxd.store.connections import is_passing
from inboxd.store.handler_connection import OwnTransaction
from inboxd.store.pools import lend, transaction
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from inboxd.telemetry import tally
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAUSE = 0.5


class Settler:
    """Writes the ends of commands; `run` in the task group of the incarnation."""

    def __init__(
        self, parts: Parts, outcomes: UnwrittenOutcomes, judge: CommandJudge, after: AfterEnds
    ) -> None:
        self._outcomes = outcomes
        self._judge = judge
        self._after = after
        self._pool = parts.pool
        self._me = parts.me.id
        self._fleet = parts.fleet
        self._folder = parts.folder
        self._hooks = parts.hooks
        self._tally = parts.metrics.tally
        self._count_expired = parts.metrics.count_expired
        self._duration = parts.metrics.settle_duration.labels("command")

    async def settle(self, ended: EndedCommand, own: OwnTransaction | None = None) -> RunEnd:
        """Commit an end in the command's transaction, if it has one, or hand it over.

        Raises the error of the commit. It waits for the write of rows that the database may refuse,
        if the next command of its key may start only then.
        """
        row = ended.row
        if own is not None and own.held is not None:
            if row["ordering_key"] is not None:
                await self._outcomes.of_key(row)
            await self._commit(ended, own)
        elif row["ordering_key"] is not None and ended.writes:
            return ended.end if await self._outcomes.see(ended) else "unsuccessful"
        elif ended.counts is None or not self._outcomes.full:
            self._outcomes.hand_over(ended)  # claims limit what is given back
        else:
            await self._outcomes.add(ended)
        return ended.end

    async def _commit(self, ended: EndedCommand, own: OwnTransaction) -> None:
        fold: list[int] = []
        settlement = cast("Settlement", ended.outcome)

        async def settle(held: Session, ending: str) -> None:
            if ended.sent or ended.planned:
                fold.extend(await batches.write(held, ended.sent, ended.planned))
            if ended.emitted:
                await emitted.write(held, ended.emitted)
            await commands.settle_own(held, self._me, settlement, ending)

        await own.commit(settle)
        self._note((ended,), fold)

    # ----------------------------------------------------------------- groups of outcomes

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
        ends = [e.outcome for e in part if isinstance(e.outcome, Settlement)]
        requeues = [e.outcome for e in part if isinstance(e.outcome, Requeue)]
        pool = self._pool
        async with lend(pool) as session, AsyncExitStack() as stack:
            # A single statement is its own transaction, which saves two round trips.
            if requeues or any(e.writes for e in part) or pool.preamble:
                await stack.enter_async_context(transaction(pool, session))
            held = await commands.end(session, self._me, ends, requeues)
            kept = part if len(held) == len(part) else [e for e in part if e.outcome.id in held]
            sent = [child for e in kept for child in e.sent]
            fold = await batches.write(session, sent, [plan for e in kept for plan in e.planned])
            await emitted.write(session, [event for e in kept for event in e.emitted])
            if self._concerns_others(requeues):
                await wakeups.notify(session, "commands")
        self._note(kept, fold)
        if requeues:
            self._after.requeued()
        if lost := len(part) - len(kept):
            self._outcomes.not_written(e.outcome.id for e in part if e.outcome.id not in held)
            _log.warning("lease lost before the settlement; nothing was written", commands=lost)
        self._duration.observe(monotonic() - started)

    def _note(self, written: Sequence[EndedCommand], fold: Iterable[int]) -> None:
        """Count, log and report ends that are written, and fold their batches."""
        self._folder.on_settled(e.row for e in written)
        for batch in fold:
            self._folder.note(batch)
        logs = row_log.logs_ends()
        for ended in written:
            if ended.counts is not None:
                self._count(ended, ended.counts)
            elif ended.has_expired:
                self._count_expired(ended.row["queue"], ended.row["type"])
            if ended.failed is not None:
                self._hooks.report(ended.failed)
            if logs and isinstance(ended.outcome, Settlement):
                status, seconds = ended.outcome.status, ended.outcome.seconds
                sent = len(ended.sent) + len(ended.emitted)
                row_log.command_ended(ended.row, status, seconds, sent)

    def _count(self, ended: EndedCommand, outcome: tally.Outcome) -> None:
        row, seconds = ended.row, ended.seconds
        self._tally.add(
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
        if outcome == "succeeded" and not ended.writes:  # it may end a story
            age = story_age(row["correlation_id"], told_time(row["command_id"]), row["age"])
            if age is not None:
                self._tally.end_story("command", row["type"], age + seconds)

    def _concerns_others(self, requeues: Sequence[Requeue]) -> bool:
        """Whether to notify other workers: rows are claimable at once, or unreadable here."""
        fleet = self._fleet
        return (fleet.differs and bool(requeues)) or (
            fleet.peers > 0 and any(_given_back(each) for each in requeues)
        )

    async def _refused(self, ended: EndedCommand, error: Exception) -> None:
        """Requeue a command whose outcome the database refuses."""
        self._outcomes.not_written([ended.outcome.id])
        try:
            await self._insist([self._judge.refused(ended, error)])
        except Exception as again:  # noqa: BLE001 - logged
            reason = explain(again).error
            _log.error("an outcome cannot be written", id=ended.row["id"], reason=reason)


def _given_back(each: Requeue) -> bool:
    """Whether a row is claimable at once, without an INSERT that notifies other workers."""
    return each.status != "failed" and each.delay is None and each.run_at is None
