"""The work of the command processor: it leases pages of commands (design section 5).

Suspects (commands that ran on a worker when it died) come first, then smaller priorities. Known
limit: outcomes that wait to be written take the room of commands. *See:* `inboxd.engine.processor`,
`sources/source.py`, `runners`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from inboxd.commands.admission import Admission
from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.bodies import CommandBodies
from inboxd.commands.judge import CommandJudge
from inboxd.commands.lost_claims import LostClaims
from inboxd.commands.progress import Progresses
from inboxd.commands.run import CommandRun
from inboxd.commands.runners import Runners
from inboxd.commands.settler import Settler
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.source import CommandSource, look
from inboxd.commands.sources.suspects import Suspects
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Page, Survey, soonest
from inboxd.model.priority_order import PriorityOrder
from inboxd.settings import Commands, Queue
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# At most this many outcomes wait to be written; further ones take the room of commands.
_MOST_BEHIND = 1_000
# The longest wait for room, in seconds.
_LONGEST_WAIT = 1.0


class CommandProcessing:
    def __init__(self, parts: Parts, tasks: TaskGroup, wake: Callable[[], None]) -> None:
        self._parts = parts
        self._wake = wake
        self._admission = Admission(parts)
        self._prefetch = self._admission.prefetch
        self._order = PriorityOrder(_priorities(self.queues))
        self._key_runs = KeyRuns(self._admission.key_concurrency)
        judge = CommandJudge(parts)
        outcomes = self.outcomes = UnwrittenOutcomes()
        self.settler = Settler(
            parts, outcomes, judge.outcome, on_requeue=wake, on_written=self._written
        )
        self._lost_claims = LostClaims(parts, self._admission, outcomes)
        self._lanes = PlainLanes(parts, self._admission, self._order)
        self.progress = Progresses(parts.pool, parts.me.id)
        self._bodies = CommandBodies(parts, self._upcoming)
        attempts = self._attempts = CommandAttempts(parts, self._bodies, self.progress.say)
        self._runners = Runners(
            CommandRun(
                parts,
                outcomes,
                self.settler,
                judge,
                attempts,
                keeps_position=self._admission.keeps_order,
            ),
            outcomes,
            self._key_runs,
            self._admission,
            tasks,
            on_ended=self._ended,
            on_left=self._left,
            on_loss=self._lost_claims.soon,
        )
        limited = self._limited = LimitedQueues(
            parts, outcomes, self._key_runs, self._admission, self._order
        )
        self._suspects = Suspects(
            parts, limited, outcomes, tasks, self._admission, on_change=self._look_again
        )
        self._sources: Sequence[CommandSource] = (self._suspects, self._lanes, limited)
        # The next page is claimed when at most this many commands are left.
        self._refill_at = 0
        self._freed = asyncio.Event()
        # Whether the processor waits for room without a time limit.
        self._wants_room = False
        self._suspended = False

    @property
    def in_flight(self) -> int:
        return self._admission.in_flight

    @property
    def is_busy(self) -> bool:
        return bool(self.in_flight or self.outcomes.waiting)

    @property
    def queues(self) -> Mapping[str, Queue]:
        return self._admission.queues

    # --------------------------------------------------------------------------------- claims

    def forget(self) -> None:
        """Forget the server, since the connection was lost; a claim may have committed."""
        for source in self._sources:
            source.forget()
        self._order.forget()
        self._lost_claims.soon()

    async def survey(self) -> Survey:
        async with borrow(self._parts.pool) as session:
            seen = await look(session)
            found = [await source.survey(session, seen) for source in self._sources]
        if (waits := self._runners.waited) is not None:  # a survey before the command is too late
            found.append(Survey(due=False, next=self._prefetch.too_late_in(waits)))
        return Survey.of(found)

    async def page(self) -> Page:
        self._freed.clear()
        if self._lost_claims.due and await self._lost_claims.give_back():
            self._wake()
        self._give_back_late()
        limits, prefetch = self._admission.limits, self._prefetch
        free = min(self._free_room(), limits.page_rows)
        if free <= prefetch.ahead // 2 or self._suspended:
            return Page(0, busy=True)
        self._admission.begin_page()
        taken = await self._claim([self._suspects], free)
        if self._suspects.exclusive:
            return Page(taken, busy=True)
        self._admission.begin_page()  # room of commands that ended during the claim
        taken += await self._claim([self._lanes, self._limited], free - taken)
        full = taken >= free
        prefetch.claimed(full=full, most=limits.page_rows, at_once=limits.concurrency)
        # Another worker's claim will end soon: wait as if for room.
        contended = taken == 0 and self._limited.contended
        busy = contended or (taken > 0 and self._admission.turned_away)
        again = soonest([source.again for source in self._sources])
        return Page(taken, full=full, busy=busy, again=again)

    async def _claim(self, sources: Sequence[CommandSource], free: int) -> int:
        """Claim level by level, small priorities first; an empty level costs one claim."""
        asks = [(ask, source) for source in sources for ask in source.asks()]
        taken = 0
        for ask, source in sorted(asks, key=lambda pair: self._order.rank(pair[0])):
            if taken >= free:
                break
            rows = await source.claim(ask, free - taken)
            if rows:
                self._order.gave(ask)
            self._take(rows)
            taken += len(rows)
        return taken

    def _take(self, rows: list[ClaimedCommand]) -> None:
        """Run leased commands, except those to cancel; give all back if the lease may end."""
        self._runners.take(rows)
        self.cancel(frozenset(row["id"] for row in rows if row["cancel_requested"]))
        if self._suspended:
            self._runners.release()
        elif not self._parts.controls.are_quiet:  # the claim may have begun before a change
            for row in rows if self._parts.breakers.probing else ():
                self._parts.breakers.admit("queue", row["queue"], row["type"], row["id"])
            self._runners.release(self._admission.is_paused)
        self._runners.next_runner()

    def _give_back_late(self) -> None:
        """Give back, for other workers, commands that have waited too long for their start."""
        waits = self._runners.waited
        if waits is not None and self._prefetch.is_too_late(waits):
            _log.info("released claimed commands that waited too long for their start")
            self._runners.release()
        self._runners.shorten()

    # ----------------------------------------------------------------------------------- room

    async def room(self, within: float | None = None) -> None:
        """Wait until a command ends, for `within` seconds at most (default: one second)."""
        self._wants_room = within is None
        try:
            with anyio.move_on_after(_LONGEST_WAIT if within is None else within):
                await self._freed.wait()
        finally:
            self._wants_room = False
        self._freed.clear()

    def _free_room(self) -> int:
        # Commands whose outcomes wait to be written are still leased: many of them take room.
        behind = max(0, self.outcomes.waiting - _MOST_BEHIND)
        ahead = self._prefetch.ahead
        most = self._admission.limits.concurrency + ahead
        self._refill_at = most - 1 - ahead // 2
        return most - self._admission.in_flight - behind

    def _ended(self, row: ClaimedCommand) -> None:
        self._suspects.ended(row)
        self._free()
        if self._key_runs.ended and not self.outcomes.waiting:
            self._wake()

    def _left(self) -> None:
        """Rewind the cursors, so that another worker claims first: only it can read the command."""
        self._lanes.forget()
        self._limited.forget_lanes()

    def _written(self) -> None:
        self._suspects.written()
        self._free()
        if self._key_runs.ended:  # the next command of a key may run
            self._wake()

    def _upcoming(self) -> Iterator[ClaimedCommand]:
        return self._runners.upcoming()

    def _look_again(self) -> None:
        self._freed.set()
        self._wake()

    def _free(self) -> None:
        if self.in_flight <= self._refill_at and not self._freed.is_set():
            self._freed.set()
            if self._wants_room and self.outcomes.waiting <= _MOST_BEHIND:
                # Claim the next page while the rest of this one runs, even if its commands are
                # quick.
                self._runners.give_way()
        if self._limited.retry() or self._admission.turned_away:
            self._admission.ask_again()
            self._wake()

    # ------------------------------------------------------------------------ changes and stops

    def reload(self, limits: Commands, queues: Mapping[str, Queue]) -> None:
        self._admission.reload(limits, queues)
        self._order.reload(_priorities(queues))
        self._limited.reload()
        self._bodies.reload(limits.in_flight_bytes)
        self._wake()

    def suspend(self) -> None:
        """Start no command and stop the running ones, since the lease may end."""
        self._suspended = True
        self._runners.release()
        self._attempts.stop_all("the lease could not be renewed")

    def resume(self) -> None:
        self._suspended = False
        self._attempts.go_on()
        self._free()

    def apply_controls(self) -> None:
        self._runners.release(self._admission.is_paused)
        self._wake()

    def events_rest(self) -> None:
        """A suspect may run alone, since no event handler runs any more."""
        self._suspects.events_rest()

    def cancel(self, ids: frozenset[int]) -> None:
        self._runners.cancel(ids)
        self._attempts.cancel(ids)

    async def finish(self) -> None:
        """Do nothing: commands run until `drain`."""

    async def drain(self, seconds: float) -> None:
        """Start nothing more; let commands finish for `seconds`, then stop them; settle all."""
        self._runners.release()
        self._refill_at = self.in_flight
        with anyio.move_on_after(seconds):
            while self.in_flight:
                await self.room()
        if self.in_flight:
            _log.warning(
                "stopping commands that still run at the drain's time limit",
                commands=self.in_flight,
            )
            self._attempts.stop_all("the worker stops")
            with anyio.move_on_after(5):
                while self.in_flight:
                    await self.room()
        with anyio.move_on_after(5):
            await self.outcomes.flush()


def _priorities(queues: Mapping[str, Queue]) -> dict[str, int]:
    return {name: queue.priority for name, queue in queues.items()}
