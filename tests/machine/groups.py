"""The model of groups: what batches and workflows promise, in plain Python.

Owns the prediction of every member's status and unmet prerequisites, and of every batch's counts
and status. A command's end is felt by what waits for it at once; a batch counts it when it is
folded. Known limit: it knows no time, no attempts and no fences; tests/machine/model.py does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

UNSETTLED = ("pending", "waiting", "running")
ENDS = ("succeeded", "failed", "cancelled", "skipped")

Edge = tuple[UUID, str]  # what it needs, and how that must end


@dataclass(slots=True)
class Member:
    """A command. edges: what it still waits for."""

    uuid: UUID
    batch: int | None
    edges: set[Edge] = field(default_factory=set)
    status: str = "pending"
    asked: bool = False  # its cancellation was requested

    @property
    def outcome(self) -> str:
        """How it ended; cancelled without a request is skipped."""
        return "skipped" if self.status == "cancelled" and not self.asked else self.status


@dataclass(slots=True)
class Group:
    """A batch or a workflow. news: what happened since it was folded last."""

    id: int
    uuid: UUID
    size: int = 0
    closed: bool = True
    ending: bool = False
    status: str = "pending"
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    news: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("size", *ENDS), 0))

    def judge(self, held_up: int) -> str:
        """Its status, from its counts and how many of its members wait for others.

        When that is all that is left, and one has failed, nothing moves any more: it has failed.
        """
        unsettled = self.size - sum(self.counts.values())
        at_rest = self.counts["failed"] > 0 and unsettled == held_up
        if (unsettled and not at_rest) or not self.closed:
            return "running" if unsettled < self.size else "pending"
        if self.counts["failed"]:
            return "failed"
        only_skipped = self.counts["skipped"] > 0 and not self.counts["succeeded"]
        if self.counts["cancelled"] or self.ending or only_skipped:
            return "cancelled"
        return "succeeded"


def verdict(condition: str, outcome: str) -> str | None:
    """What an end means for who waits: met; cancelled or skipped, never to be met; None, open."""
    if condition in ("finished", outcome):
        return "met"
    if condition == "succeeded" and outcome == "failed":
        return None
    return "cancelled" if outcome == "cancelled" else "skipped"


@dataclass(slots=True)
class Groups:
    """Everything that was committed."""

    members: dict[UUID, Member] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)

    def add(self, uuid: UUID, batch: int | None, edges: Iterable[Edge] = ()) -> None:
        """A command was sent; it waits if it has edges."""
        member = Member(uuid, batch, set(edges))
        member.status = "waiting" if member.edges else "pending"
        self.members[uuid] = member

    def replace(self, member: Member, uuid: UUID) -> None:
        """A new row took the place of a dead letter: in its batch, and in what waits for it."""
        del self.members[member.uuid]
        for each in self.members.values():
            each.edges = {(uuid if n == member.uuid else n, how) for n, how in each.edges}
        member.uuid, member.asked = uuid, False
        self.members[uuid] = member
        self.move(member, "pending")

    def some(self, *statuses: str) -> list[Member]:
        """The members of such a status, in a fixed order."""
        return [m for m in self.members.values() if m.status in statuses]

    # ------------------------------------------------------------------------------------ ends

    def move(self, member: Member, status: str) -> None:
        """A member's status changes; its batch and what waits for it hear of it."""
        self._count(member, status)
        if status in ("succeeded", "failed", "cancelled", "dismissed"):
            outcome = "cancelled" if status == "dismissed" else member.outcome
            self.release([(member.uuid, outcome)])

    def _count(self, member: Member, status: str) -> None:
        was, member.status = member.status, status
        news = self.groups[member.batch].news if member.batch is not None else {}
        if "failed" in (was, status):
            news["failed"] = news.get("failed", 0) + (1 if status == "failed" else -1)
        ended = "cancelled" if status == "dismissed" else member.outcome
        if status not in (*UNSETTLED, "failed"):
            news[ended] = news.get(ended, 0) + 1

    def release(self, ended: list[tuple[UUID, str]]) -> None:
        """These ended so: what waited for nothing else runs, what can never run ends, and so on."""
        while ended:
            outcomes, ended = dict(ended), []
            for member in self.some("waiting"):
                ended += self._hear(member, outcomes)

    def _hear(self, member: Member, outcomes: dict[UUID, str]) -> list[tuple[UUID, str]]:
        mine = [edge for edge in member.edges if edge[0] in outcomes]
        verdicts = {edge: verdict(edge[1], outcomes[edge[0]]) for edge in mine}
        never = sorted(v for v in verdicts.values() if v not in (None, "met"))
        member.edges -= {edge for edge, said in verdicts.items() if said is not None}
        if never:
            member.edges.clear()
            member.asked = member.asked or never[0] == "cancelled"
            self._count(member, "cancelled")
            return [(member.uuid, str(never[0]))]
        if mine and not member.edges:
            member.status = "pending"
        return []

    # ----------------------------------------------------------------------------------- folds

    def fold(self, group: Group) -> None:
        """What happened to a batch is counted, and its end is felt."""
        if group.ending:
            self._end_members(group)
        group.size += group.news["size"]
        for end in ENDS:
            group.counts[end] += group.news[end]
        group.news = dict.fromkeys(("size", *ENDS), 0)
        mine = [m for m in self.some("waiting") if m.batch == group.id]
        was, group.status = group.status, group.judge(len(mine))
        if group.status != was and group.status in ENDS:
            unasked = not group.counts["cancelled"] and not group.ending
            skipped = group.status == "cancelled" and unasked
            self.release([(group.uuid, "skipped" if skipped else group.status)])

    def _end_members(self, group: Group) -> None:
        mine = [m for m in self.members.values() if m.batch == group.id]
        gone = [m for m in mine if m.status in ("pending", "waiting")]
        for member in mine:
            member.asked = member.asked or member in gone or member.status == "running"
        for member in gone:
            member.edges.clear()
            self._count(member, "cancelled")
        self.release([(member.uuid, "cancelled") for member in gone])
