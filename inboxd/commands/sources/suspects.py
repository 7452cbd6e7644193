"""Suspects: commands that ran on a worker when it died, found out by groups (ADR 20).

Owns which group this worker runs, and whether it runs one command alone. A group runs side by side,
beside ordinary commands; the next one is not begun before it has ended or has come through for a
while, so that a death tells which group it was. Promises that what runs alone has nothing beside it
here, neither commands nor events, until it has ended or has come through for a while, and then is
written down as not alone before anything else starts: a death is counted against nobody who was not
alone. Known limit: who wants to run one alone claims nothing until all that it runs has ended,
however long that takes.
"""

from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from inboxd.commands.admission import Admission
from inboxd.commands.settler import Settler
from inboxd.commands.sources.alone_lease import AloneLease
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.source import Sightings
from inboxd.commands.sources.suspect_groups import SuspectGroup, grouped, time_of
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.model.outcome import explain
from inboxd.model.priority_order import Ask
from inboxd.store import commands
from inboxd.store.connections import Connection
from inboxd.store.pools import borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds until what could not be taken is looked at again.
_AGAIN = 0.5
# A worker that is busy leaves a suspect that is to run alone to others for so long, in seconds.
_PATIENCE = 2.0
# Groups that one look tries: some may wait for what is before them in their lines, or for room.
_TRIES = 10
# Who was to run alone and could not, though nothing else ran here (its queue was full, its key was
# held), is left alone for so many seconds; the wait doubles.
_VAIN, _LONGEST_VAIN = 1.0, 60.0


class Suspects:
    """The suspects of one worker."""

    def __init__(
        self,
        parts: Parts,
        limited: LimitedQueues,
        settler: Settler,
        tasks: TaskGroup,
        admission: Admission,
        on_change: Callable[[], None],
    ) -> None:
        """Claim what `admission` admits; `on_change`: who waits for room is to look again."""
        self._parts = parts
        self._limited = limited
        self._settler = settler
        self._tasks = tasks
        self._admission = admission
        self._on_change = on_change
        self._look_at = 0.0
        # The group that runs here, who of it has not ended, and until when it is the only one.
        self._group: UUID | None = None
        self._held: set[int] = set()
        self._until = 0.0
        # Where among the groups the next look begins, if none of those before had anything.
        self._first = 0
        # The command that runs alone; whether this worker empties itself for one.
        self._alone: ClaimedCommand | None = None
        self._wants = False
        self._ending = False
        self._over = anyio.Event()
        self._lease = AloneLease(parts)
        # Since when one runs alone, and until when it is the turn of all others.
        self._alone_at = 0.0
        self._rest_until = 0.0
        # Until when those are left alone that could not run, and the wait so far.
        self._vain: dict[UUID, tuple[float, float]] = {}

    @property
    def exclusive(self) -> bool:
        """Whether nothing else is to be claimed."""
        return self._wants or self._alone is not None

    @property
    def due(self) -> bool:
        """Whether it is time to look for suspects."""
        return self._alone is None and monotonic() >= self._look_at

    @property
    def again(self) -> float | None:
        """In how many seconds they are to be looked for; None: when told."""
        if self._alone is not None or self._look_at == inf:
            return None
        return max(0.0, self._look_at - monotonic())

    def forget(self) -> None:
        """The connection was lost: a claim may be unknown."""
        if self._alone is None:
            self._company()
        self._look_at = 0.0

    # ----------------------------------------------------------------------------------- looks

    async def survey(self, connection: Connection, seen: Sightings) -> Survey:
        """Whether some are due that this worker may take; in how many seconds others may be."""
        serves = self._admission.serves
        plain = any(lane.key[2] is None for lane in seen.lanes)
        if not plain and not any(
            line.oldest is not None and serves(line.queue, line.type) for line in seen.lines
        ):
            return Survey(due=False, next=None)
        found = await commands.find_suspects(connection, self._parts.sql)
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
        self._on_change()

    def events_rest(self) -> None:
        """No handler of events runs any more: who waited for that may run alone."""
        self._look_now()

    # ---------------------------------------------------------------------------------- claims

    def asks(self) -> list[Ask]:
        """One claim, before all others, when it is time to look for them."""
        return [Ask(-inf, "")] if self.due else []

    async def claim(self, _ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease up to `most` commands of one group; or one, that is to run alone."""
        if not self._wants:  # as after a lost connection
            await self._lease.free()
        async with borrow(self._parts.pool) as connection:
            found = await commands.find_suspects(connection, self._parts.sql)
        serves = self._admission.serves
        groups = grouped(part for part in found if serves(part.queue, part.type))
        self._vain = {each.id: self._vain[each.id] for each in groups if each.id in self._vain}
        self._look_at = monotonic() + _AGAIN if groups else inf
        groups = [group for group in groups if self._may_take(group.id)]
        for group in self._in_turn([group for group in groups if not group.alone]):
            if rows := await self._take(group, most):
                self._first = 0
                await self._give_up()  # those that run side by side come first
                self._hold(group, rows)
                return rows
        single = [group for group in groups if group.alone and self._may_try(group.id)]
        if single:
            return await self._claim_alone(single[0])
        await self._give_up()  # somebody else has it
        return []

    def _in_turn(self, groups: list[SuspectGroup]) -> list[SuspectGroup]:
        """So many as one look tries, after those that the last one tried in vain."""
        if len(groups) <= _TRIES:
            return groups
        first = self._first % len(groups)
        self._first = first + _TRIES
        return [*groups[first:], *groups[:first]][:_TRIES]

    def _may_try(self, group: UUID) -> bool:
        """Whether one may run alone now, as far as it is known here."""
        now = monotonic()
        until, _ = self._vain.get(group, (0.0, 0.0))
        return group != self._group and now >= max(until, self._rest_until)

    async def _give_up(self) -> None:
        """This worker empties itself for nobody."""
        if self._wants:
            self._company()
        await self._lease.free()

    def _hold(self, group: SuspectGroup, rows: Sequence[ClaimedCommand]) -> None:
        """These run now; what is left of the group is looked for as soon as there is room."""
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
            async with borrow(self._parts.pool) as connection:
                rows += await commands.claim_suspects(
                    connection,
                    self._parts.sql,
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
        """Empty this worker for it, or lease it when that is done."""
        if self._admission.in_flight or self._settler.waiting:
            if self._wants or group.since >= _PATIENCE:
                self._wants = await self._lease.hold()
            return []
        self._wants = True
        if not self._parts.exclusive_run.want():
            return []
        self._admission.begin_page()  # what has ended since the page began
        # A handler that was given up may go on in its thread: a death may be that one's.
        rows = await self._take(group, 1, alone=not self._parts.executions.left_behind)
        if not rows:
            wait = min(2 * self._vain.get(group.id, (0.0, _VAIN / 2))[1], _LONGEST_VAIN)
            self._vain[group.id] = (monotonic() + wait, wait)
            await self._give_up()
            return []
        self._wants = False
        await self._lease.free()
        (self._alone,), self._over, self._alone_at = rows, anyio.Event(), monotonic()
        self._hold(group, rows)
        self._tasks.start_soon(self._let_company_in, self._alone)
        return rows

    async def _let_company_in(self, row: ClaimedCommand) -> None:
        """It has come through for a while: that is written down, then others may start."""
        with anyio.move_on_after(time_of(row["crashes"])):
            await self._over.wait()
        while self._alone is row:
            try:
                async with borrow(self._parts.pool) as connection:
                    sql, me = self._parts.sql, self._parts.me.id
                    await commands.end_alone(connection, sql, me, row["id"], row["fence"])
            except Exception as error:  # noqa: BLE001 - until it is written, it is alone
                _log.warning("a suspect stays alone", id=row["id"], reason=explain(error).error)
                await anyio.sleep(_AGAIN)
            else:
                if self._alone is row:
                    self._company()

    def _company(self) -> None:
        """Others may run here; for as long as one ran alone it is their turn."""
        if self._alone is not None:
            now = monotonic()
            self._rest_until = now + now - self._alone_at
        self._alone, self._wants, self._ending = None, False, False
        self._over.set()
        self._parts.exclusive_run.end()
        self._on_change()

    # ------------------------------------------------------------------------------- what ends

    def ended(self, row: ClaimedCommand) -> None:
        """A command has ended here, or was given back."""
        if row["id"] in self._held:
            self._held.discard(row["id"])
            if not self._held:  # what is left of it, or was given back, is like any other
                self._group = None
            self._look_now()
        if self._alone is not None and row["id"] == self._alone["id"]:
            self._ending = True
        self.written()

    def written(self) -> None:
        """Outcomes were written: what ended alone is nobody's any more, and others may start."""
        if self._settler.waiting:
            return
        if self._ending:
            self._company()
            self._look_now()
        elif self._wants and not self._admission.in_flight:
            self._look_now()
