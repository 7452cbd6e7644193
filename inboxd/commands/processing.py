"""The work of the command processor: it leases pages of commands (design section 5).

Suspects (commands that ran on a worker when it died) come first, then smaller priorities. *See:*
`inboxd.engine.processor`, `room`, `sources/source.py`, `runners`.
"""

from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from inboxd.commands.admission import Admission
from inboxd.commands.after import AfterEnds
from inboxd.commands.attempts import CommandAttempts
from inboxd.commands.bodies import CommandBodies
from inboxd.commands.judge import CommandJudge
from inboxd.commands.key_turns import KeyTurns
from inboxd.commands.leases import LostClaims, ReadyCommands
from inboxd.commands.progress import Progresses
from inboxd.commands.room import CommandRoom
from inboxd.commands.run import CommandRun
from inboxd.commands.runners import Runners
from inboxd.commands.settler import Settler
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.source import CommandSource, look
from inboxd.commands.sources.suspects import Suspects
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.execution import CooperativeYield
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Page, Survey, soonest
from inboxd.model.priority_order import PriorityOrder
from inboxd.settings import Commands, Queue
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class CommandProcessing:
    def __init__(self, parts: Parts, tasks: TaskGroup, wake: Callable[[], None]) -> None:
        """Make the parts from the bottom up: each calls only parts that were made before it."""
        pool, me, settings = parts.pool, parts.me.id, parts.settings
        self._parts = parts
        admission = self._admission = Admission(
            settings, parts.queues.by_name, parts.registry, parts.controls, parts.breakers
        )
        outcomes = self.outcomes = UnwrittenOutcomes()
        ready, yields = ReadyCommands(), CooperativeYield()
        room = self._room = CommandRoom(admission, outcomes, yields, wake)
        self._ready = ready
        self._order = PriorityOrder(_priorities(self.queues))
        key_runs = KeyRuns(admission.key_concurrency)
        self._lanes = PlainLanes(pool, me, parts.metrics, admission, self._order)
        limited = self._limited = LimitedQueues(
            pool, me, parts.metrics, outcomes, key_runs, admission, self._order
        )
        self._suspects = Suspects(parts, limited, outcomes, tasks, admission, room)
        self._sources: Sequence[CommandSource] = (self._suspects, self._lanes, limited)
        self._lost_claims = LostClaims(pool, me, settings.worker.lease.total_seconds())
        self._bodies = CommandBodies(pool, settings.commands.in_flight_bytes, ready)
        after = self._after = AfterEnds(
            *(room, outcomes, self._bodies, key_runs),
            *(self._suspects, self._lanes, limited, self._lost_claims),
        )
        judge = CommandJudge(parts, admission)
        self.settler = Settler(parts, outcomes, judge, after)
        self.progress = Progresses(pool, me)
        self._attempts = CommandAttempts(parts, self._bodies, admission.expiries, self.progress.say)
        run = CommandRun(
            parts.registry.commands,
            self._attempts,
            judge,
            self.settler,
            KeyTurns(pool, parts.queues, parts.metrics),
            parts.handler_pool,
            settings.commands.timeout.total_seconds(),
        )
        self._runners = Runners(run, ready, outcomes, key_runs, admission, yields, after, tasks)
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
        if (waits := self._ready.waited) is not None:  # a survey before the command is too late
            late = self._admission.prefetch.too_late_in(waits)
            found.append(Survey(due=False, next=late))
        return Survey.of(found)

    async def page(self) -> Page:
        self._room.begin_page()
        if self._lost_claims.due and await self._give_back_lost():
            self._room.wake()
        self._give_back_late()
        limits, prefetch = self._admission.limits, self._admission.prefetch
        free = min(self._room.free(), limits.page_rows)
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
                if row["id"] in self._admission.known:  # the others have ended
                    self._parts.breakers.admit("queue", row["queue"], row["type"], row["id"])
            self._runners.release(self._admission.is_paused)
        self._runners.next_runner()

    async def _give_back_lost(self) -> int:
        return await self._lost_claims.give_back(self._admission.known | self.outcomes.ids)

    def _give_back_late(self) -> None:
        """Give back, for other workers, commands that have waited too long for their start."""
        waits = self._ready.waited
        if waits is not None and self._admission.prefetch.is_too_late(waits):
            _log.info("released claimed commands that waited too long for their start")
            self._runners.release()
        self._runners.shorten()

    async def room(self, within: float | None = None) -> None:
        await self._room.wait(within)

    # ------------------------------------------------------------------------ changes and stops

    def reload(self, limits: Commands, queues: Mapping[str, Queue]) -> None:
        self._admission.reload(limits, queues)
        self._order.reload(_priorities(queues))
        self._limited.reload()
        self._bodies.reload(limits.in_flight_bytes)
        self._room.wake()

    def suspend(self) -> None:
        """Start no command and stop the running ones, since the lease may end."""
        self._suspended = True
        self._runners.release()
        self._attempts.stop_all("the lease could not be renewed")

    def resume(self) -> None:
        self._suspended = False
        self._attempts.go_on()
        self._after.free()

    def apply_controls(self) -> None:
        self._runners.release(self._admission.is_paused)
        self._room.wake()

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
        self._room.follow_each_end()
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
