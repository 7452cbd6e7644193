"""Pages of commands: leased here, run side by side, each atomic by itself (design section 5).

Owns the room of each queue, and the runners. A runner takes commands from the page one after the
other and calls the next runner only when a handler waits, so that handlers that never wait cost no
task each. Promises that no more of a queue runs here than its limit, that suspects (commands that
were running when a worker died) run one at a time, and that what was claimed is settled, given
back, or fenced. Known limit: a queue's limit holds within this process.
"""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

import anyio
from anyio.abc import TaskGroup

from inboxd.model.lane import Lane, Lanes
from inboxd.model.outcome import explain
from inboxd.runtime.command_run import CommandRun
from inboxd.runtime.execution import Breath
from inboxd.runtime.pace import Pace
from inboxd.runtime.parts import Parts
from inboxd.runtime.processor import Page, Survey
from inboxd.runtime.settler import Ended
from inboxd.settings.sections import Commands, Queue
from inboxd.store import commands
from inboxd.store.commands import Settlement
from inboxd.store.connections import Row
from inboxd.store.events import Setback
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Outcomes that may wait to be written before they take the room of commands.
_MOST_BEHIND = 1_000


class CommandWork:
    """The command processor's work."""

    def __init__(self, parts: Parts, run: CommandRun, tasks: TaskGroup) -> None:
        """Run the commands that the plugins serve, as tasks of `tasks`."""
        self._parts = parts
        self._settler = run.settler
        self._settler.on_written = self._free
        self._run = run
        self._run.bodies.upcoming = lambda: (row for row, _ in self._ready)
        self._tasks = tasks
        self._lanes = Lanes()
        # What is leased and has not started, with the time of its lease.
        self._ready: deque[tuple[Row, float]] = deque()
        self._pace = Pace()
        self._idle: deque[asyncio.Event] = deque()
        self._runners = 0
        self._leased: Counter[str] = Counter()
        # Commands that are leased and not ended yet.
        self.in_flight = 0
        # The next page is claimed when no more than these are left.
        self._refill_at = 0
        # What this worker knows that it holds; the rest of its leases is looked for in _look_after.
        self._known: set[int] = set()
        self._look_at = 0.0
        self._suspect: int | None = None
        self._suspects_due = True
        self._freed = asyncio.Event()
        self._was_full = False
        self._suspended = False
        self.on_room: Callable[[], None] = lambda: None
        self.limits = parts.settings.commands
        self.queues: Mapping[str, Queue] = parts.settings.queues

    # --------------------------------------------------------------------------------- claims

    def forget(self) -> None:
        """The connection was lost: another server may answer next, and a claim may be unknown."""
        self._lanes.forget()
        self._look_at = 0.0

    def reload(self, limits: Commands, queues: Mapping[str, Queue]) -> None:
        """Take over other settings while running."""
        self.limits, self.queues = limits, queues
        self._run.bodies.most = limits.in_flight_bytes
        self.on_room()

    def suspend(self) -> None:
        """The lease may end: start nothing, stop what runs."""
        self._suspended = True
        self._release_ready()
        self._run.stop_all("the lease could not be renewed")

    def obey(self) -> None:
        """The controls changed: what is leased ahead and paused now is given back."""
        self._release_ready(self._is_paused)
        self.on_room()

    def resume(self) -> None:
        """The lease holds again."""
        self._suspended = False
        self._run.go_on()
        self._free()

    def cancel(self, ids: frozenset[int]) -> None:
        """Stop commands whose cancellation was requested; those not started yet stop at once."""
        if not ids:
            return
        for leased in [leased for leased in self._ready if leased[0]["id"] in ids]:
            self._ready.remove(leased)
            row = leased[0]
            self._run.bodies.done(row)
            self._ended(row)
            ended = Settlement(row["id"], row["fence"], "cancelled", 0.0, None)
            self._settler.hand_over(Ended(row, ended))
        self._run.cancel(ids)

    async def finish(self) -> None:
        """What runs goes on until `drain`."""

    async def room(self) -> None:
        """Wait until a command ends, a second at most."""
        with anyio.move_on_after(1):
            await self._freed.wait()
        self._freed.clear()

    async def survey(self) -> Survey:
        """Look at every lane from its beginning; suspects are looked for as well."""
        async with borrow(self._parts.pool) as connection:
            seen = await commands.survey(connection, self._parts.sql)
        served = [s for s in seen if self._serves(str(s.key[0]), str(s.key[1]))]
        suspects = [s for s in served if s.key[2] is None]
        due = self._lanes.sweep([s for s in served if s.key[2] is not None])
        waiting = any(s.oldest is not None for s in suspects)
        self._suspects_due = waiting and self._suspect is None
        times = [s.next for s in served if s.next is not None]
        if self._ready:  # it is looked at again before it waits too long
            times.append(self._pace.too_late_in(monotonic() - self._ready[0][1]))
        return Survey(due or self._suspects_due, min(times, default=None))

    async def page(self) -> Page:
        """Lease what there is room for, and let it run."""
        self._freed.clear()
        if monotonic() >= self._look_at:
            await self._look_after()
        if self._run.stepped_aside:
            self._run.stepped_aside = False
            self._lanes.forget()
        if self._ready and self._pace.is_too_late(monotonic() - self._ready[0][1]):
            _log.info("commands leased ahead of their start are given back", rows=len(self._ready))
            self._release_ready()
        free = min(self._free_room(), self.limits.page_rows)
        if free <= self._pace.ahead // 2 or self._suspended:
            return Page(0, busy=True)
        taken = 0
        if self._suspects_due:
            taken += await self._claim_suspect()
        # The smaller priorities of all queues first; a level that is empty costs one look. Room
        # that a command leaves meanwhile is for the next page, which starts at the first level.
        lanes = sorted(self._open_lanes(), key=_priority)
        room = {queue: self._room_of(queue) for queue in {str(lane.key[0]) for lane in lanes}}
        for _, level in itertools.groupby(lanes, _priority):
            open_ = [lane for lane in level if room[str(lane.key[0])] > 0]
            if open_ and taken < free:
                taken += await self._claim(open_, room, free - taken)
        most, at_once = self.limits.page_rows, self.limits.concurrency
        self._pace.claimed(full=taken >= free, most=most, at_once=at_once)
        return Page(taken, full=taken >= free, busy=taken > 0 and self._was_full)

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
        most = self.limits.concurrency + self._pace.ahead
        self._refill_at = most - 1 - self._pace.ahead // 2
        return most - self.in_flight - behind

    def _room_of(self, queue: str) -> int:
        settings = self.queues.get(queue)
        limit = None if settings is None else settings.concurrency
        most = self.limits.page_rows
        return most if limit is None else min(most, limit - self._leased[queue])

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

    async def _claim_suspect(self) -> int:
        self._suspects_due = False
        controls = self._parts.controls
        full = [queue for queue in self.queues if self._room_of(queue) <= 0]
        paused = controls.named("type")
        async with borrow(self._parts.pool) as connection:
            row = await commands.claim_suspect(
                connection,
                self._parts.sql,
                self._parts.me.id,
                [type_ for type_ in self._parts.registry.command_types if type_ not in paused],
                self._parts.settings.worker.queues,
                [*full, *controls.named("queue")],
            )
        if row is None:
            return 0
        self._suspect = row["id"]
        self._take([row])
        return 1

    def _take(self, rows: Sequence[Row]) -> None:
        """Let what was leased run, unless it is to be cancelled or the lease may end meanwhile."""
        now = monotonic()
        self.in_flight += len(rows)
        for row in rows:
            self._known.add(row["id"])
            self._leased[row["queue"]] += 1
            self._ready.append((row, now))
        self.cancel(frozenset(row["id"] for row in rows if row["cancel_requested"]))
        if self._suspended:
            self._release_ready()
        elif self._parts.controls.paused:  # perhaps since the claim began
            self._release_ready(self._is_paused)
        self._next_runner()

    async def _look_after(self) -> None:
        """Give back what this worker holds and does not know: the answer to its claim was lost."""
        known = list(self._known | self._settler.ids)
        async with borrow(self._parts.pool) as connection:
            unknown = await commands.release(
                connection, self._parts.sql, self._parts.me.id, but=known
            )
        self._look_at = monotonic() + self._parts.settings.worker.lease.total_seconds()
        if unknown:
            _log.warning("gave back commands whose claim was not answered", commands=unknown)
            self.on_room()

    # -------------------------------------------------------------------------------- runners

    def _next_runner(self) -> None:
        """Let one more runner work, if there is something to run."""
        if not self._ready:
            return
        if self._idle:
            self._idle.popleft().set()
        elif self._runners < self.limits.concurrency:
            self._runners += 1
            self._tasks.start_soon(self._runner)

    async def _runner(self) -> None:
        breath, task = Breath(), asyncio.current_task()
        try:
            while True:
                while self._ready:
                    row, leased_at = self._ready.popleft()
                    started_at = monotonic()
                    self._pace.waited = started_at - leased_at
                    try:
                        await self._run.run(task, row, self._next_runner)
                    except Exception as error:  # noqa: BLE001 - one row's trouble is not the daemon's
                        _log.error("command was lost", id=row["id"], reason=explain(error).error)
                        self._look_at = 0.0
                    finally:
                        self._pace.took = monotonic() - started_at
                        self._ended(row)
                    await breath.take()
                self._next_runner()
                call = asyncio.Event()
                self._idle.append(call)
                await call.wait()
        finally:
            self._runners -= 1

    def _ended(self, row: Row) -> None:
        self._known.discard(row["id"])
        self.in_flight -= 1
        self._leased[row["queue"]] -= 1
        if self._leased[row["queue"]] <= 0:
            del self._leased[row["queue"]]
        if row["id"] == self._suspect:
            self._suspect, self._suspects_due = None, True
            self.on_room()
        self._free()

    def _free(self) -> None:
        if self.in_flight <= self._refill_at:
            self._freed.set()
        if self._was_full:
            self._was_full = False
            self.on_room()

    # ----------------------------------------------------------------------------------- drain

    def _release_ready(self, which: Callable[[Row], bool] = lambda _: True) -> None:
        """Give back what was claimed and has not started: no attempt, no crash."""
        leased, self._ready = self._ready, deque(each for each in self._ready if not which(each[0]))
        for row in [row for row, _ in leased if which(row)]:
            self._run.bodies.done(row)
            self._ended(row)
            self._settler.hand_over(Ended(row, Setback(row["id"], "pending", fence=row["fence"])))

    async def drain(self, seconds: float) -> None:
        """Start nothing more, let what runs finish for so long, stop the rest; all is settled."""
        self._release_ready()
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


def _priority(lane: Lane) -> int:
    return int(lane.key[2] or 0)
