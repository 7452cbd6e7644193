"""Commands of queues without limits over all workers, claimed from their lanes.

*See:* `inboxd.store.commands.claim`, `inboxd.commands.runners`.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from inboxd.commands.admission import Admission
from inboxd.commands.sources.source import Sightings, advance
from inboxd.engine.processor import Survey, soonest
from inboxd.model.lane import Lane, Lanes
from inboxd.model.priority_order import Ask, PriorityOrder
from inboxd.store import commands
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics


class PlainLanes:
    # Always None: a queue without room waits for a command's end, not for a time.
    again: float | None = None

    def __init__(
        self, pool: Pool, me: UUID, metrics: Metrics, admission: Admission, order: PriorityOrder
    ) -> None:
        self._pool = pool
        self._me = me
        self._duration = metrics.claim_duration.labels("command")
        self._page_rows = metrics.page_rows.labels("command")
        self._admission = admission
        self._order = order
        self._lanes = Lanes()

    def forget(self) -> None:
        self._lanes.forget()

    async def survey(self, session: Session, seen: Sightings) -> Survey:  # noqa: ARG002 - the survey's rows are in `seen`
        mine = self._admission.served(seen.lanes, limited=False)
        return Survey(self._lanes.sweep(mine), soonest(each.next for each in mine))

    def asks(self) -> list[Ask]:
        """One claim for all lanes of a level."""
        limited = self._admission.limited  # the set may have grown since the survey
        known = [lane for lane in self._lanes.ordered() if lane.key[0] not in limited]
        lanes = self._admission.open(known)
        # A probed lane has a claim of its own, since only a few of its commands may be leased.
        probed = [lane for lane in lanes if self._room_of(lane) is not None]
        alone = [ask for lane in probed for ask in self._order.together([lane])]
        if probed:
            lanes = [lane for lane in lanes if lane not in probed]
        return [*alone, *self._order.together(lanes)]

    def _room_of(self, lane: Lane) -> int | None:
        return self._admission.probe_room(str(lane.key[0]), str(lane.key[1]))

    async def claim(self, ask: Ask, most: int) -> list[ClaimedCommand]:
        lanes = list(ask.lanes)
        while lanes:
            room = self._admission.rooms(str(lane.key[0]) for lane in lanes)
            asked = [lane for lane in lanes if room[str(lane.key[0])] > 0]
            rows = await self._claim(asked, room, most) if asked else []
            if rows or not asked:
                return rows
            # These lanes were empty: other lanes may use their room.
            lanes = [lane for lane in lanes if lane not in asked]
        return []

    async def _claim(
        self, lanes: Sequence[Lane], room: Mapping[str, int], most: int
    ) -> list[ClaimedCommand]:
        room = {queue: free for queue, free in room.items() if free > 0}
        probes = self._room_of(lanes[0])
        if probes is not None:
            most = min(most, probes)
            if most <= 0:
                return []
        with self._duration.time():
            async with borrow(self._pool) as session:
                rows = await commands.claim(session, self._me, room, lanes, most)
        self._page_rows.observe(len(rows))
        for lane in advance(lanes, rows):
            self._lanes.took(lane)
        return rows
