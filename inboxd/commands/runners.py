"""Runners of commands: each takes leased commands, one after the other, and runs them.

A runner starts the next one only when a handler waits, so that handlers that never wait need no
task each (ADR 4). A leased command is settled, given back, or fenced. Known limit: commands of a
claim whose answer was lost are unknown here; `LostClaims` searches for them. *See:* `processing`,
before it; `run`, after it; `sources/key_runs.py` for commands with a key.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from anyio.abc import TaskGroup

from inboxd.commands.admission import Admission
from inboxd.commands.after import AfterEnds
from inboxd.commands.ended import RunEnd, cancelled, given_back
from inboxd.commands.leases import ReadyCommands
from inboxd.commands.run import CommandRun
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.execution import CooperativeYield
from inboxd.model.outcome import explain
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class Runners:
    def __init__(
        self,
        run: CommandRun,
        ready: ReadyCommands,
        outcomes: UnwrittenOutcomes,
        key_runs: KeyRuns,
        admission: Admission,
        yields: CooperativeYield,
        after: AfterEnds,
        tasks: TaskGroup,
    ) -> None:
        self._run = run
        self._ready = ready
        self._outcomes = outcomes
        self._key_runs = key_runs
        self._admission = admission
        self._prefetch = admission.prefetch
        self._yields = yields
        self._after = after
        self._tasks = tasks
        self._idle: deque[asyncio.Event] = deque()
        self._count = 0

    def take(self, rows: Sequence[ClaimedCommand]) -> None:
        self._admission.took(rows)
        if any(row["ordering_key"] is not None for row in rows):
            keyed = [row for row in rows if row["ordering_key"] is not None]
            rows = [row for row in rows if row["ordering_key"] is None]
            first, back = self._key_runs.begin(keyed, self._outcomes.handed_over)
            rows += first
            self._to_its_line(back)
        self._key_runs.expect_no_more(self._outcomes.handed_over)
        now = monotonic()
        self._ready.extend((row, now) for row in rows)
        self._yields.served()

    def cancel(self, ids: frozenset[int]) -> None:
        """End unstarted commands whose cancellation was requested."""
        if not ids:
            return
        stopped = self._key_runs.remove(ids) if self._key_runs else []
        for row in stopped + self._ready.remove_all(lambda row: row["id"] in ids):
            self._outcomes.hand_over(cancelled(row))
            self._ended(row, well=True)

    def next_runner(self) -> None:
        if not self._ready:
            return
        if self._idle:
            self._idle.popleft().set()
        elif self._count < self._admission.limits.concurrency:
            self._count += 1
            self._tasks.start_soon(self._runner)

    async def _runner(self) -> None:
        try:
            await self._run_ready()
        finally:
            self._count -= 1
        self.next_runner()

    async def _run_ready(self) -> None:
        """Run leased commands; end if lowered settings allow fewer runners."""
        task = asyncio.current_task()
        while True:
            self._yields.begin()
            while self._ready:
                if self._count > self._admission.limits.concurrency:
                    return
                row, leased_at = self._ready.popleft()
                started_at = monotonic()
                self._prefetch.waited = started_at - leased_at
                end: RunEnd = "unsuccessful"
                try:
                    end = await self._run.run(task, row, self.next_runner)
                except Exception as error:  # noqa: BLE001 - a failure of one row must not stop the daemon
                    _log.error("command was lost", id=row["id"], reason=explain(error).error)
                    self._after.lost()
                finally:
                    self._prefetch.took = monotonic() - started_at
                    self._ended(row, well=end == "succeeded")
                if end == "left":
                    self._after.left()
                await self._yields.take()
            self.next_runner()
            call = asyncio.Event()
            self._idle.append(call)
            await call.wait()

    def _ended(self, row: ClaimedCommand, *, well: bool) -> None:
        self._admission.ended(row)
        if row["ordering_key"] is not None:
            following, back = self._key_runs.end(row, self._outcomes.handed_over, well=well)
            if following is not None:
                self._ready.appendleft((following, monotonic()))
            if back:
                self._to_its_line(back)
        self._after.ended(row)

    def _to_its_line(self, rows: Iterable[ClaimedCommand]) -> None:
        """Give back commands that waited behind another of their key; they keep their positions."""
        for row in rows:
            self._outcomes.hand_over(given_back(row, "waiting"))
            self._ended(row, well=False)

    def shorten(self) -> None:
        """Give back commands that have waited long behind a slow command of their key."""
        if self._key_runs:
            self._to_its_line(self._key_runs.stale())

    def release(self, which: Callable[[ClaimedCommand], bool] = lambda _: True) -> None:
        """Give back leased commands that have not started: no attempt, no crash is counted."""
        if self._key_runs:
            self._to_its_line(self._key_runs.give_back(which))
        for row in self._ready.remove_all(which):
            self._outcomes.hand_over(given_back(row, "pending"))
            self._ended(row, well=False)
