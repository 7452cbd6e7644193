"""The story of a row as a tree: its ancestors and descendants.

Each row is in it once; the tree ends at its bounds and at circles, and counts rows left out. Known
limit: it relies on causation ids, which a producer can set to anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

Key = tuple[str, int]

# The kind of a receipt, which begins the story of its events.
RECEIPT = "receipt"

# The ends of a batch's members, as the batch counts them.
ENDS = ("succeeded", "failed", "cancelled", "skipped")


@dataclass(frozen=True, slots=True)
class Member:
    """lane: topic, queue, or "batch" and "workflow". A receipt has the id 0.

    counts: of a batch's members by their ends. seconds: of a batch from its beginning to its end.
    """

    kind: str
    id: int
    uuid: UUID
    type: str
    lane: str
    status: str
    attempts: int
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    seconds: float | None = None
    run_at: datetime | None = None
    origin_kind: str | None = None
    origin_id: int | None = None
    causation_id: UUID | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    batch_id: int | None = None
    replay_of: int | None = None
    tenant: str | None = None
    source: str | None = None
    error: str | None = None
    counts: Mapping[str, Any] | None = None

    @property
    def key(self) -> Key:
        return self.kind, self.id

    @property
    def name(self) -> str:
        if self.kind == RECEIPT:
            return f"{RECEIPT} {self.uuid}"
        return f"{self.lane if self.kind == 'batch' else self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class StoryNode:
    """hidden: rows not shown, by status. unsure: maybe more. cut: its children were not read."""

    member: Member
    notes: tuple[str, ...] = ()
    children: tuple[StoryNode, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    unsure: bool = False
    cut: bool = False

    def walk(self) -> Iterator[StoryNode]:
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(reversed(node.children))


@dataclass(slots=True)
class Sketch:
    top: Member
    members: dict[Key, Member] = field(default_factory=dict)
    children: dict[Key, list[Key]] = field(default_factory=dict)
    looked: dict[Key, Mapping[str, int]] = field(default_factory=dict)
    unsure: set[Key] = field(default_factory=set)
    notes: dict[Key, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members[self.top.key] = self.top

    def add(self, parent: Key, found: Iterable[Member]) -> list[Member]:
        """Put rows below their parent; returns the rows that are new to the tree."""
        new = []
        below = self.children.setdefault(parent, [])
        for each in found:
            if each.key not in self.members:
                self.members[each.key] = each
                below.append(each.key)
                new.append(each)
        return new

    def note(self, key: Key, text: str) -> None:
        self.notes.setdefault(key, []).append(text)

    def draw(self) -> StoryNode:
        return self._node(self.top.key)

    def _node(self, key: Key) -> StoryNode:
        member, below = self.members[key], self.children.get(key)
        drawn = tuple(self._node(each) for each in sorted(below or (), key=self._order))
        return StoryNode(
            member,
            tuple(self.notes.get(key, ())),
            drawn,
            self._hidden(member, [node.member for node in drawn]) if below is not None else {},
            key in self.unsure and member.counts is None,
            cut=below is None,
        )

    def _order(self, key: Key) -> tuple[datetime, Key]:
        return self.members[key].created_at, key

    def _hidden(self, member: Member, shown: Sequence[Member]) -> dict[str, int]:
        if member.counts is None:
            hidden = Counter(self.looked.get(member.key, {}))
            hidden.subtract(each.status for each in shown)
        else:
            # The batch's own counts are complete. They exclude its continuations, and dead letters
            # in history, which were replaced by their replays.
            hidden = _counted(member.counts)
            for each in shown:
                if each.batch_id == member.id and not (
                    each.finished_at and each.status == "failed"
                ):
                    hidden[_place(each.status, hidden)] -= 1
        return {status: count for status, count in sorted(hidden.items()) if count > 0}


def _counted(counts: Mapping[str, Any]) -> Counter[str]:
    ended = Counter({status: int(counts[status]) for status in ENDS})
    return ended + Counter(unsettled=int(counts["size"]) - ended.total())


def _place(status: str, hidden: Counter[str]) -> str:
    """The count of its batch to which a member belongs; counts may lag behind statuses."""
    for counted in (status, "skipped" if status == "cancelled" else "cancelled"):
        if status in ("succeeded", "failed", "cancelled", "dismissed") and hidden[counted] > 0:
            return counted
    return "unsettled"
