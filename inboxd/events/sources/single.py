"""Events that are processed one by one: a source of pages.

Rows that commit behind a cursor wait for the next sweep. *See:* `source`; `store/events.py`.
"""

from collections.abc import Sequence

from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey, soonest
from inboxd.events.page_order import serves
from inboxd.events.sources.source import LineLook
from inboxd.events.topic_limits import TopicLimits
from inboxd.model.lane import Lane, Lanes
from inboxd.store import events
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session


class LaneClaim:
    exclusive = False
    order = None

    def __init__(
        self, rows: Sequence[ClaimedEvent], asked: Sequence[Lane], known: Lanes, most: int
    ) -> None:
        self.rows = rows
        self.full = len(rows) == most
        self._asked = asked
        self._known = known

    def ran(self, met: int) -> None:
        """Move the cursors past these rows, which are still locked."""
        rows = self.rows[:met]
        for row in rows:
            self._asked[row["lane"] - 1].advance(row["run_at"], row["id"])
        for position in {row["lane"] for row in rows}:
            self._known.took(self._asked[position - 1])

    def ended(self, met: int, *, committed: bool) -> None:
        """Do nothing: the cursors have moved already."""

    async def hold(
        self, session: Session, row: ClaimedEvent, before: Sequence[ClaimedEvent]
    ) -> None:
        """Do nothing: the row's lock suffices."""


class SingleSource:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lanes = Lanes()
        self._limits = TopicLimits(parts)

    @property
    def again(self) -> float | None:
        return self._limits.again

    def forget(self) -> None:
        self._lanes.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:  # noqa: ARG002 - part of the contract
        """Rewind every lane, and look for due events."""
        seen = await events.survey(session)
        served = [s for s in seen if self._serves(s.key)]
        due = self._lanes.sweep(served)
        return Survey(due, soonest(s.next for s in served))

    def is_known(self) -> bool:
        return bool(self._lanes.ordered())

    async def claim(self, session: Session, most: int) -> LaneClaim | None:
        """Claim due events behind the cursors; first a few from probed lanes."""
        lanes, probed = self._open(), self._probed()
        if probed and (room := min(most, *(room for _, room in probed))) > 0:
            found = await self._claim(session, [lane for lane, _ in probed], room)
            if found is not None:
                return found
        others = [lane for lane in lanes if all(lane is not each for each, _ in probed)]
        return await self._claim(session, others, most)

    async def _claim(self, session: Session, lanes: list[Lane], most: int) -> LaneClaim | None:
        while lanes:
            topics = [str(lane.key[0]) for lane in lanes]
            allowed = await self._limits.allow(session, topics, most)
            asked = [lane for lane in lanes if lane.key[0] in allowed.topics]
            if not asked:
                break
            rows = await events.claim(session, asked, allowed.most)
            if rows:
                return LaneClaim(rows, asked, self._lanes, allowed.most)
            # A topic with a limit was asked alone: now ask the other topics.
            for lane in asked:
                self._lanes.took(lane)
            lanes = [lane for lane in lanes if lane.key[0] not in allowed.topics]
        return None

    def _serves(self, lane: tuple[str | int | None, ...]) -> bool:
        # Events that are older than their topic's relay are taken into lines first.
        if lane[0] in self._parts.registry.relays:
            return False
        return serves(self._parts, str(lane[0]), str(lane[1]))

    def _open(self) -> list[Lane]:
        lanes = self._lanes.ordered()
        if not self._parts.controls.are_quiet:
            return [lane for lane in lanes if self._serves(lane.key)]
        return lanes

    def _probed(self) -> list[tuple[Lane, int]]:
        """The lanes whose breaker this worker probes, and how many events of each may begin."""
        breakers = self._parts.breakers
        if not breakers.probing:
            return []
        rooms = (
            (lane, breakers.room("topic", str(lane.key[0]), str(lane.key[1])))
            for lane in self._open()
        )
        return [(lane, room) for lane, room in rooms if room is not None]
