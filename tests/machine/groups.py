"""The model of groups: the promises of batches and workflows, in plain Python.

Owns the prediction of every member's status and unmet prerequisites, and of every batch's counts
and status. The end of a command affects those that wait for it at once; a batch counts it when it
is folded.
Known limit: it has no time, no attempts and no fences; tests/machine/model.py does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

UNSETTLED = ("pending", "waiting", "running")
ENDS = ("succeeded", "failed", "cancelled", "skipped")

Edge = tuple[UUID, str]  # the command or batch that is needed, and how it must end


@dataclass(slots=True)
class Member:
    """A command. edges: its open prerequisites."""

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
    """A batch or a workflow. news: changes since its last fold."""

    id: int
    uuid: UUID
    size: int = 0
    closed: bool = True
    ending: bool = False
    status: str = "pending"
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    news: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("size", *ENDS), 0))

    def judge(self, held_up: int) -> str:
        """The status, from the counts and the number of members that wait for others.

        If only waiting members are left, and one member has failed, the batch is at rest: it has
        failed.
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
    """The effect of an end on a waiting command: met; cancelled or skipped; None: still open."""
    if condition in ("finished", outcome):
        return "met"
    if condition == "succeeded" and outcome == "failed":
        return None
    return "cancelled" if outcome == "cancelled" else "skipped"


@dataclass(slots=True)
class Groups:
    """All committed members and groups, by key."""

    members: dict[UUID, Member] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)

    def add(self, uuid: UUID, batch: int | None, edges: Iterable[Edge] = ()) -> None:
        """Add a sent command; it waits if it has edges."""
        member = Member(uuid, batch, set(edges))
        member.status = "waiting" if member.edges else "pending"
        self.members[uuid] = member

    def replace(self, member: Member, uuid: UUID) -> None:
        """Replace a dead letter by a new row: in its batch, and as a prerequisite."""
        del self.members[member.uuid]
        for each in self.members.values():
            each.edges = {(uuid if n == member.uuid else n, how) for n, how in each.edges}
        member.uuid, member.asked = uuid, False
        self.members[uuid] = member
        self.move(member, "pending")

    def some(self, *statuses: str) -> list[Member]:
        """The members with one of these statuses, in a fixed order."""
        return [m for m in self.members.values() if m.status in statuses]

    # ------------------------------------------------------------------------------------ ends

    def move(self, member: Member, status: str) -> None:
        """Change a member's status; update its batch and the members that wait for it."""
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
        """Release members after these ends: they run, or end if they can never run, recursively."""
        while ended:
            outcomes, ended = dict(ended), []
            for member in self.some("waiting"):
                ended += self._update(member, outcomes)

    def _update(self, member: Member, outcomes: dict[UUID, str]) -> list[tuple[UUID, str]]:
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
        """Count the changes of a batch, and apply its end."""
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
