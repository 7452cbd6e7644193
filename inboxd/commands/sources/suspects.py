"""Suspects: commands that ran on a worker when it died, tried by groups (ADR 20).

The commands of a group run beside ordinary ones; the next group begins only when this one has ended
or has run for a while, so that a death points to one group. A command that runs alone is the only
one for a while; before anything else starts, the database marks it as no longer alone, since a
death counts only against a command that was alone. Known limit: before a worker runs a suspect
alone, it claims nothing until all its commands have ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from inboxd.commands.admission import Admission
from inboxd.commands.room import CommandRoom
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.source import Sightings
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.model.outcome import explain
from inboxd.model.priority_order import Ask
from inboxd.store import commands, leases
from inboxd.store.commands import Suspected
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds until the next try for suspects that could not be leased.
_AGAIN = 0.5
# Seconds for which a busy worker leaves a suspect that must run alone to other workers.
_PATIENCE = 2.0
# Groups tried in one search: some may wait for other commands in their lines, or for room.
_TRIES = 10
# Back-off of a suspect that could not run alone although nothing else ran here (its queue was full,
# its key was held): the first in seconds, doubled up to the longest.
_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0
# Seconds for which a group runs before others may run beside it, doubled for each death: at most 16
# minutes, since the worker starts nothing else in that time.
_WATCH_SECONDS = 15.0
_MOST_DOUBLINGS = 6
_ALONE_LEASE = "alone"


@dataclass(slots=True)
class SuspectGroup:
    id: UUID
    parts: list[Suspected] = field(default_factory=list)

    @property
    def alone(self) -> bool:
        return any(part.alone for part in self.parts)

    @property
    def since(self) -> float:
        """Seconds that the group has waited."""
        return max(part.since for part in self.parts)


def grouped(parts: Iterable[Suspected]) -> list[SuspectGroup]:
    """Groups with due commands; those that must run alone come last."""
    groups: dict[UUID, SuspectGroup] = {}
    for part in parts:
        if part.oldest is not None:
            groups.setdefault(part.group, SuspectGroup(part.group)).parts.append(part)
    return sorted(groups.values(), key=lambda group: group.alone)


def time_of(crashes: int) -> float:
    """Seconds for which a group with this many deaths is watched."""
    return float(_WATCH_SECONDS * 2 ** min(crashes, _MOST_DOUBLINGS))


class AloneLease:
    """The lease that lets one worker stop claiming, so that it can run a suspect alone.

    It is given up even if the answer to its taking was lost.
    """

    def __init__(self, pool: Pool, me: UUID) -> None:
        self._pool = pool
        self._me = me
        # Whether this worker may hold it.
        self._held = False

    async def hold(self) -> bool:
        """Take or renew the lease; returns whether this worker has it."""
        self._held = True  # set before the statement, since its answer may be lost
        async with borrow(self._pool) as session:
            self._held = await leases.hold(session, _ALONE_LEASE, self._me)
        return self._held

    async def free(self) -> None:
        if self._held:
            async with borrow(self._pool) as session:
                await leases.free(session, _ALONE_LEASE, self._me)
            self._held = False


class Suspects:
    def __init__(
        self,
        parts: Parts,
        limited: LimitedQueues,
        outcomes: UnwrittenOutcomes,
        tasks: TaskGroup,
        admission: Admission,
        room: CommandRoom,
    ) -> None:
        self._parts = parts
        self._limited = limited
        self._outcomes = outcomes
        self._tasks = tasks
        self._admission = admission
        self._room = room
        self._look_at = 0.0
        # The group that runs here, its commands that have not ended, and the time until which no
        # other group begins.
        self._group: UUID | None = None
        self._held: set[int] = set()
        self._until = 0.0
        # Index of the first group to try in the next search, if the tried groups gave nothing.
        self._first = 0
        # The command that runs alone; whether this worker stops claiming for such a command.
        self._alone: ClaimedCommand | None = None
        self._wants = False
        self._ending = False
        self._over = anyio.Event()
        self._lease = AloneLease(parts.pool, parts.me.id)
        # Begin of the time alone, and end of the time that other commands get after it.
        self._alone_at = 0.0
        self._rest_until = 0.0
        # By group: a suspect that could not run is not tried before this time; the last wait in
        # seconds.
        self._backoffs: dict[UUID, tuple[float, float]] = {}

    @property
    def exclusive(self) -> bool:
        return self._wants or self._alone is not None

    @property
    def due(self) -> bool:
        return self._alone is None and monotonic() >= self._look_at

    @property
    def again(self) -> float | None:
        """Seconds until the next search for suspects; None: only after a wake-up."""
        if self._alone is not None or self._look_at == inf:
            return None
        return max(0.0, self._look_at - monotonic())

    def forget(self) -> None:
        """Search again, since the connection was lost; a claim may have committed."""
        if self._alone is None:
            self._admit_others()
        self._look_at = 0.0

    # ----------------------------------------------------------------------------------- looks

    async def survey(self, session: Session, seen: Sightings) -> Survey:
        """Whether suspects are due that this worker may lease, and when others may become due."""
        serves = self._admission.serves
        plain = any(lane.key[2] is None for lane in seen.lanes)
        if not plain and not any(
            line.oldest is not None and serves(line.queue, line.type) for line in seen.lines
        ):
            return Survey(due=False, next=None)
        found = await commands.find_suspects(session)
        mine = [part for part in found if serves(part.queue, part.type)]
        due = any(part.oldest is not None and self._may_take(part.group) for part in mine)
        if due and self._look_at == inf:
            self._look_at = 0.0
        others = max(0.0, self._until - monotonic()) if self._held else None
        return Survey(due and self.due, soonest([*(part.next for part in mine), others]))

    def _may_take(self, group: UUID) -> bool:
        return not self._held or group == self._group or monotonic() >= self._until

    def _look_now(self) -> None:
        self._look_at = 0.0
        self._room.look_again()

    def events_rest(self) -> None:
        self._look_now()

    # ---------------------------------------------------------------------------------- claims

    def asks(self) -> list[Ask]:
        return [Ask(-inf, "")] if self.due else []

    async def claim(self, _ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease up to `most` commands of one group, or a single command that must run alone."""
        if not self._wants:  # the lease may still be held after a lost connection
            await self._lease.free()
        async with borrow(self._parts.pool) as session:
            found = await commands.find_suspects(session)
        serves = self._admission.serves
        groups = grouped(part for part in found if serves(part.queue, part.type))
        self._backoffs = {
            each.id: self._backoffs[each.id] for each in groups if each.id in self._backoffs
        }
        self._look_at = monotonic() + _AGAIN if groups else inf
        groups = [group for group in groups if self._may_take(group.id)]
        for group in self._in_turn([group for group in groups if not group.alone]):
            if rows := await self._take(group, most):
                self._first = 0
                await self._give_up()  # groups that run concurrently come first
                self._hold(group, rows)
                return rows
        single = [group for group in groups if group.alone and self._may_try(group.id)]
        if single:
            return await self._claim_alone(single[0])
        await self._give_up()  # another worker runs it
        return []

    def _in_turn(self, groups: list[SuspectGroup]) -> list[SuspectGroup]:
        """At most `_TRIES` groups, after those that the last search tried."""
        if len(groups) <= _TRIES:
            return groups
        first = self._first % len(groups)
        self._first = first + _TRIES
        return [*groups[first:], *groups[:first]][:_TRIES]

    def _may_try(self, group: UUID) -> bool:
        """Whether a suspect may run alone now, by this worker's own knowledge."""
        now = monotonic()
        until, _ = self._backoffs.get(group, (0.0, 0.0))
        return group != self._group and now >= max(until, self._rest_until)

    async def _give_up(self) -> None:
        """Claim other commands again, instead of waiting for a suspect."""
        if self._wants:
            self._admit_others()
        await self._lease.free()

    def _hold(self, group: SuspectGroup, rows: Sequence[ClaimedCommand]) -> None:
        """Note that these commands run now; search at once for the rest of the group."""
        if group.id != self._group:
            self._held.clear()
            self._until = monotonic() + time_of(max(row["crashes"] for row in rows))
        self._group = group.id
        self._held.update(row["id"] for row in rows)
        self._look_at = 0.0

    async def _take(
        self, group: SuspectGroup, most: int, *, alone: bool = False
    ) -> list[ClaimedCommand]:
        rows: list[ClaimedCommand] = []
        plain: dict[str, int] = {}
        rooms = self._admission.rooms(sorted({part.queue for part in group.parts}))
        for queue, free in rooms.items():
            own = [part for part in group.parts if part.queue == queue]
            room = min(most - len(rows), free)
            if room > 0 and (queue in self._admission.limited or any(part.keyed for part in own)):
                types = [part.type for part in own]
                rows += await self._limited.claim_suspects(
                    queue, group.id, types, room, alone=alone
                )
            elif room > 0:
                plain[queue] = room
        if plain and len(rows) < most:
            types = sorted({part.type for part in group.parts if part.queue in plain})
            async with borrow(self._parts.pool) as session:
                rows += await commands.claim_suspects(
                    session,
                    self._parts.me.id,
                    group.id,
                    types,
                    plain,
                    most - len(rows),
                    alone=alone,
                )
        return rows

    # ----------------------------------------------------------------------------------- alone

    async def _claim_alone(self, group: SuspectGroup) -> list[ClaimedCommand]:
        """Stop claiming for a suspect; lease it when all other commands have ended."""
        if self._admission.in_flight or self._outcomes.waiting:
            if self._wants or group.since >= _PATIENCE:
                self._wants = await self._lease.hold()
            return []
        self._wants = True
        if not self._parts.exclusive_run.want():
            return []
        self._admission.begin_page()  # room of commands that ended since
        # The thread of an abandoned handler may still run, and cause a death.
        rows = await self._take(group, 1, alone=not self._parts.executions.left_behind)
        if not rows:
            wait = min(2 * self._backoffs.get(group.id, (0.0, _BACKOFF / 2))[1], _LONGEST_BACKOFF)
            self._backoffs[group.id] = (monotonic() + wait, wait)
            await self._give_up()
            return []
        self._wants = False
        await self._lease.free()
        (self._alone,), self._over, self._alone_at = rows, anyio.Event(), monotonic()
        self._hold(group, rows)
        self._tasks.start_soon(self._admit_others_later, self._alone)
        return rows

    async def _admit_others_later(self, row: ClaimedCommand) -> None:
        """After a while, mark the command as not alone, and let others start."""
        with anyio.move_on_after(time_of(row["crashes"])):
            await self._over.wait()
        while self._alone is row:
            try:
                async with borrow(self._parts.pool) as session:
                    me = self._parts.me.id
                    await commands.end_alone(session, me, row["id"], row["fence"])
            except Exception as error:  # noqa: BLE001 - until the mark is written, it runs alone
                _log.warning("a suspect stays alone", id=row["id"], reason=explain(error).error)
                await anyio.sleep(_AGAIN)
            else:
                if self._alone is row:
                    self._admit_others()

    def _admit_others(self) -> None:
        if self._alone is not None:
            now = monotonic()
            self._rest_until = now + now - self._alone_at
        self._alone, self._wants, self._ending = None, False, False
        self._over.set()
        self._parts.exclusive_run.end()
        self._room.look_again()

    # ------------------------------------------------------------------------------- what ends

    def ended(self, row: ClaimedCommand) -> None:
        if row["id"] in self._held:
            self._held.discard(row["id"])
            if not self._held:  # the rest of the group are ordinary suspects
                self._group = None
            self._look_now()
        if self._alone is not None and row["id"] == self._alone["id"]:
            self._ending = True
        self.written()

    def written(self) -> None:
        """Outcomes were written: after a suspect's outcome, other commands may start."""
        if self._outcomes.waiting:
            return
        if self._ending:
            self._admit_others()
            self._look_now()
        elif self._wants and not self._admission.in_flight:
            self._look_now()
