"""Pages of commands: leased here, run side by side, each atomic by itself (design section 5).

Owns the room of each queue, and what is claimed next. Promises that no more of a queue runs here
than its limit, that suspects (commands that ran on a worker when it died) come first, and that what
was claimed is settled, given back, or fenced. Known limit: `concurrency` of a queue holds
within this process; what holds over all workers is claimed by `inboxd.commands.sources.limited`.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from time import monotonic

import anyio
from anyio.abc import TaskGroup

from inboxd.commands.run import CommandRun
from inboxd.commands.runners import Runners
from inboxd.commands.sources.limited import Limited
from inboxd.commands.sources.suspects import Suspects
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Page, Survey
from inboxd.model.lane import Lane, Lanes
from inboxd.model.levels import Levels
from inboxd.settings import Commands, Queue
from inboxd.store import commands
from inboxd.store.connections import Row
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Outcomes that may wait to be written before they take the room of commands.
_MOST_BEHIND = 1_000
# The longest wait for room, in seconds.
_LONGEST_WAIT = 1.0
# The look for what this worker holds without knowing it may take this share of the time.
_LOOK_SHARE = 1 / 100
# A rate bounds claims; below so many a second, starts are kept close to them.
_HIGH_RATE = 1_000


class CommandWork:
    """The command processor's work."""

    def __init__(self, parts: Parts, run: CommandRun, tasks: TaskGroup) -> None:
        """Run the commands that the plugins serve, as tasks of `tasks`."""
        self.limits = parts.settings.commands
        self.queues: Mapping[str, Queue] = parts.settings.queues
        self.on_room: Callable[[], None] = lambda: None
        self._parts = parts
        self._run = run
        self._settler = run.settler
        self._settler.on_written = self._written
        self._lanes = Lanes()
        self._levels = Levels(_priorities(self.queues))
        self._limited = Limited(parts, self._settler, self.queues)
        self._runners = Runners(run, tasks, self._limited.chains)
        self._runners.most = self.limits.concurrency
        self._runners.on_ended = self._ended
        self._runners.on_loss = self._look_soon
        run.keeps_place = lambda queue: self._limited.bounds(queue).key_concurrency == 1
        # The next page is claimed when no more than these are left.
        self._refill_at = 0
        # When what this worker holds without knowing it is looked for (`_look_after`).
        self._look_at = 0.0
        self._suspects = Suspects(
            parts,
            self._limited,
            self._settler,
            tasks,
            serves=self._serves,
            room_of=self._room_of,
            in_flight=lambda: self._runners.in_flight,
        )
        self._suspects.on_change = self._look_again
        self._freed = asyncio.Event()
        # The processor waits for room, and for nothing else.
        self._wants_room = False
        self._was_full = False
        self._suspended = False

    @property
    def in_flight(self) -> int:
        """Commands that are leased and not ended yet."""
        return self._runners.in_flight

    # --------------------------------------------------------------------------------- claims

    def forget(self) -> None:
        """The connection was lost: another server may answer next, and a claim may be unknown."""
        self._lanes.forget()
        self._limited.forget()
        self._levels.forget()
        self._suspects.forget()
        self._look_soon()

    def _look_soon(self) -> None:
        self._look_at = 0.0

    def reload(self, limits: Commands, queues: Mapping[str, Queue]) -> None:
        """Take over other settings while running."""
        self.limits, self.queues = limits, queues
        self._levels.priorities = _priorities(queues)
        self._runners.most = limits.concurrency
        self._limited.reload(queues)
        self._run.bodies.most = limits.in_flight_bytes
        self.on_room()

    def suspend(self) -> None:
        """The lease may end: start nothing, stop what runs."""
        self._suspended = True
        self._runners.release()
        self._run.stop_all("the lease could not be renewed")

    def obey(self) -> None:
        """The controls changed: what is leased ahead and paused now is given back."""
        self._runners.release(self._is_paused)
        self.on_room()

    def events_rest(self) -> None:
        """No handler of events runs any more."""
        self._suspects.events_rest()

    def resume(self) -> None:
        """The lease holds again."""
        self._suspended = False
        self._run.go_on()
        self._free()

    def cancel(self, ids: frozenset[int]) -> None:
        """Stop commands whose cancellation was requested; those not started yet stop at once."""
        self._runners.cancel(ids)

    async def finish(self) -> None:
        """What runs goes on until `drain`."""

    async def room(self, within: float | None = None) -> None:
        """Wait until a command ends, not for long."""
        self._wants_room = within is None
        try:
            with anyio.move_on_after(_LONGEST_WAIT if within is None else within):
                await self._freed.wait()
        finally:
            self._wants_room = False
        self._freed.clear()

    async def survey(self) -> Survey:
        """Look at every lane and line from its beginning; suspects are looked for as well."""
        async with borrow(self._parts.pool) as connection:
            seen = await commands.survey(connection, self._parts.sql)
            lines_due, times = await self._limited.survey(connection, self._serves)
            suspects_due, later = False, list[float]()
            if lines_due or any(s.key[2] is None for s in seen):
                suspects_due, later = await self._suspects.survey(connection)
        served = [s for s in seen if self._serves(str(s.key[0]), str(s.key[1]))]
        served = [s for s in served if s.key[2] is not None]
        due = self._lanes.sweep(served)
        times += [s.next for s in served if s.next is not None] + later
        if (waits := self._runners.waited) is not None:  # looked at again before it is too long
            times.append(self._runners.pace.too_late_in(waits))
        if self._limited.chains:
            times.append(1.0)
        return Survey(due or lines_due or suspects_due, min(times, default=None))

    async def page(self) -> Page:
        """Lease what there is room for, and let it run."""
        self._freed.clear()
        if monotonic() >= self._look_at:
            await self._look_after()
        if self._run.stepped_aside:
            self._run.stepped_aside = False
            self._lanes.forget()
        pace = self._runners.pace
        waits = self._runners.waited
        if waits is not None and pace.is_too_late(waits):
            _log.info("commands leased ahead of their start are given back")
            self._runners.release()
        self._runners.shorten()
        free = min(self._free_room(), self.limits.page_rows)
        if free <= pace.ahead // 2 or self._suspended:
            return Page(0, busy=True)
        taken = 0
        if self._suspects.due:
            taken += await self._claim_suspects(free)
        if self._suspects.exclusive:
            return Page(taken, busy=True)
        taken, again = await self._claim_levels(free, taken)
        most, at_once = self.limits.page_rows, self.limits.concurrency
        pace.claimed(full=taken >= free, most=most, at_once=at_once)
        # Another worker's claim is over in a moment: that is waited for as for room.
        contended = taken == 0 and self._limited.contended
        busy = contended or (taken > 0 and self._was_full)
        soon = [each for each in (again, self._suspects.again) if each is not None]
        return Page(taken, full=taken >= free, busy=busy, again=min(soon, default=None))

    async def _claim_levels(self, free: int, taken: int) -> tuple[int, float | None]:
        """Claim the smaller priorities of all queues first; a level that is empty costs one look.

        Returns the rows, and in how many seconds a queue that lets nothing run may be asked again.
        Room that a command leaves meanwhile is for the next page, which starts at the first level.
        """
        lanes = self._open_lanes()
        limited = self._of_limited(lanes) if self._limited.active else {}
        if self._limited.names:
            lanes = [lane for lane in lanes if lane.key[0] not in self._limited.names]
        room = {queue: self._room_of(queue) for queue in {str(lane.key[0]) for lane in lanes}}
        for ask in self._levels.order(lanes, limited):
            if taken >= free:
                break
            rows = 0
            if ask.queue:
                rows = await self._claim_limited(ask.queue, ask.lanes, free - taken)
            elif open_ := [lane for lane in ask.lanes if room[str(lane.key[0])] > 0]:
                rows = await self._claim(open_, room, free - taken)
            if rows:
                self._levels.gave(ask)
            taken += rows
        return taken, self._limited.again_in(limited)

    def _of_limited(self, lanes: Sequence[Lane]) -> dict[str, list[Lane]]:
        """The queues that are to be asked by `claim_limited` now, with the lanes that it takes."""
        mine: dict[str, list[Lane]] = {}
        for lane in sorted(lanes, key=self._levels.of):
            if lane.key[0] in self._limited.names:
                mine.setdefault(str(lane.key[0]), []).append(lane)
        asked = {}
        for queue in self._limited.ready(mine):
            if not any(self._serves(queue, type_) for type_ in self._parts.registry.commands):
                continue
            if self._limited_room(queue) > 0:
                asked[queue] = mine.get(queue, [])
            else:
                self._was_full = True
        return asked

    def _limited_room(self, queue: str) -> int:
        room = self._room_of(queue)
        bounds = self._limited.bounds(queue)
        if bounds.rate is None or bounds.rate / bounds.period >= _HIGH_RATE:
            return room
        # What is claimed can start at once: it waits for no room, out of the rate's sight.
        return min(room, self.limits.concurrency - self._runners.in_flight)

    def _serves(self, queue: str, type_: str) -> bool:
        wanted = self._parts.settings.worker.queues
        return (
            type_ in self._parts.registry.commands
            and (not wanted or queue in wanted)
            and self._parts.controls.allow("queue", queue, type_)
        )

    def _is_paused(self, row: Row) -> bool:
        return not self._parts.controls.allow("queue", row["queue"], row["type"])

    def _free_room(self) -> int:
        # Outcomes that wait to be written are leased still: they take room, a few pages aside.
        behind = max(0, self._settler.waiting - _MOST_BEHIND)
        most = self.limits.concurrency + self._runners.pace.ahead
        self._refill_at = most - 1 - self._runners.pace.ahead // 2
        return most - self._runners.in_flight - behind

    def _room_of(self, queue: str) -> int:
        settings = self.queues.get(queue)
        limit = None if settings is None else settings.concurrency
        most = self.limits.page_rows
        return most if limit is None else min(most, limit - self._runners.leased[queue])

    def _open_lanes(self) -> list[Lane]:
        """The lanes that are not paused, and whose queue has room."""
        known = self._lanes.ordered()
        if self._parts.controls.paused:
            known = [lane for lane in known if self._serves(str(lane.key[0]), str(lane.key[1]))]
        lanes = [lane for lane in known if self._room_of(str(lane.key[0])) > 0]
        self._was_full = len(lanes) < len(known)
        return lanes

    async def _claim(self, lanes: list[Lane], room: dict[str, int], most: int) -> int:
        """Lease up to `most` commands of these lanes, and take them off their queues' room."""
        of_these = {queue: room[queue] for queue in {str(lane.key[0]) for lane in lanes}}
        with self._parts.metrics.claim_seconds.labels("command").time():
            async with borrow(self._parts.pool) as connection:
                rows = await commands.claim(
                    connection, self._parts.sql, self._parts.me.id, of_these, lanes, most
                )
        self._parts.metrics.page_rows.labels("command").observe(len(rows))
        for number, taken in itertools.groupby(rows, key=lambda row: row["lane"]):
            lane, last = lanes[number - 1], list(taken)[-1]
            lane.advance(last["run_at"], last["id"])
            self._lanes.took(lane)
        for row in rows:
            room[row["queue"]] -= 1
        self._take(rows)
        return len(rows)

    async def _claim_suspects(self, free: int) -> int:
        rows = await self._suspects.claim(free)
        for queue in {row["queue"] for row in rows}:
            own = [row for row in rows if row["queue"] == queue]
            self._take(own, self._limited.bounds(queue).key_concurrency)
        return len(rows)

    async def _claim_limited(self, queue: str, lanes: Sequence[Lane], most: int) -> int:
        """Lease up to `most` commands of a queue with limits, or from its lines."""
        types = [t for t in self._parts.registry.command_types if self._serves(queue, t)]
        room = min(most, self._limited_room(queue))
        if room <= 0:
            self._was_full = True
            return 0
        took = self._runners.pace.took
        with self._parts.metrics.claim_seconds.labels("command").time():
            rows = await self._limited.claim(queue, lanes, room, took, types)
        self._parts.metrics.page_rows.labels("command").observe(len(rows))
        for number, taken in itertools.groupby(rows, key=itemgetter("lane")):
            if number:
                last = list(taken)[-1]
                lanes[number - 1].advance(last["run_at"], last["id"])
        self._take(rows, self._limited.bounds(queue).key_concurrency)
        self._limited.chains.expect_no_more(self._settler.handed_over)
        return len(rows)

    def _take(self, rows: Sequence[Row], at_once: int = 1) -> None:
        """Let what was leased run, unless it is to be cancelled or the lease may end meanwhile."""
        self._runners.take(rows, at_once)
        self.cancel(frozenset(row["id"] for row in rows if row["cancel_requested"]))
        if self._suspended:
            self._runners.release()
        elif self._parts.controls.paused:  # perhaps since the claim began
            self._runners.release(self._is_paused)
        self._runners.next_runner()

    async def _look_after(self) -> None:
        """Give back what this worker holds and does not know: the answer to its claim was lost."""
        known, began = list(self._runners.known | self._settler.ids), monotonic()
        async with borrow(self._parts.pool) as connection:
            unknown = await commands.release(
                connection, self._parts.sql, self._parts.me.id, but=known
            )
        # Under a held snapshot it reads all that this worker ever claimed.
        rest = (monotonic() - began) / _LOOK_SHARE
        self._look_at = monotonic() + max(self._parts.settings.worker.lease.total_seconds(), rest)
        if unknown:
            _log.warning("gave back commands whose claim was not answered", commands=unknown)
            self.on_room()

    # ------------------------------------------------------------------------------- what ends

    def _ended(self, row: Row) -> None:
        self._suspects.ended(row)
        self._free()
        if self._limited.chains.ended and not self._settler.waiting:
            self.on_room()

    def _written(self) -> None:
        self._suspects.written()
        self._free()
        if self._limited.chains.ended:  # its key's next command may run
            self.on_room()

    def _look_again(self) -> None:
        self._freed.set()
        self.on_room()

    def _free(self) -> None:
        if self.in_flight <= self._refill_at and not self._freed.is_set():
            self._freed.set()
            if self._wants_room and self._settler.waiting <= _MOST_BEHIND:
                # The next page is claimed while the rest of this one runs, however quickly it does.
                self._runners.give_way()
        if self._limited.active and self._limited.retry():
            self._was_full = True
        if self._was_full:
            self._was_full = False
            self.on_room()

    async def drain(self, seconds: float) -> None:
        """Start nothing more, let what runs finish for so long, stop the rest; all is settled."""
        self._runners.release()
        self._refill_at = self.in_flight
        with anyio.move_on_after(seconds):
            while self.in_flight:
                await self.room()
        if self.in_flight:
            _log.warning("stopping what still runs at the deadline", commands=self.in_flight)
            self._run.stop_all("the worker stops")
            with anyio.move_on_after(5):
                while self.in_flight:
                    await self.room()
        with anyio.move_on_after(5):
            await self._settler.flush()


def _priorities(queues: Mapping[str, Queue]) -> dict[str, int]:
    return {name: queue.priority for name, queue in queues.items()}
