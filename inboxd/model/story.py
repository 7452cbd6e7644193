"""The story of a row: what it came from and what came from it, as a tree.

Owns the tree's values and how it is put together from rows. Promises: each row is in it once; the
tree ends where it was bounded, and counts what was left out; rows that point to each other in a
circle end it too.
Known limit: it is as true as the causation ids, which a producer may have set to anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

Key = tuple[str, int]

# The kind of a receipt: it begins the story of the events that came in it.
RECEIPT = "receipt"

# How members of a batch end, as it counts them.
ENDS = ("succeeded", "failed", "cancelled", "skipped")


@dataclass(frozen=True, slots=True)
class Member:
    """One row of a story: an event, a command or a batch; or a receipt, which has the number 0.

    lane: topic, queue, or "batch" and "workflow". counts: how a batch's members ended. seconds: how
    long it took; of a batch, from its beginning to its end.
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
        """Its identity."""
        return self.kind, self.id

    @property
    def name(self) -> str:
        """What it is called: "command 4711", "workflow 3"."""
        if self.kind == RECEIPT:
            return f"{RECEIPT} {self.uuid}"
        return f"{self.lane if self.kind == 'batch' else self.kind} {self.id}"


@dataclass(frozen=True, slots=True)
class StoryNode:
    """A row in its place: with what it created, and what of that is not shown.

    hidden: status -> how many. unsure: there may be more of them than were counted. cut: what it
    created was not looked for, since the tree was large or deep enough.
    """

    member: Member
    notes: tuple[str, ...] = ()
    children: tuple[StoryNode, ...] = ()
    hidden: Mapping[str, int] = field(default_factory=dict)
    unsure: bool = False
    cut: bool = False

    def walk(self) -> Iterator[StoryNode]:
        """It and all below it."""
        todo = [self]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(reversed(node.children))


@dataclass(slots=True)
class Sketch:
    """A tree that is being put together, level by level."""

    top: Member
    members: dict[Key, Member] = field(default_factory=dict)
    children: dict[Key, list[Key]] = field(default_factory=dict)
    looked: dict[Key, Mapping[str, int]] = field(default_factory=dict)
    unsure: set[Key] = field(default_factory=set)
    notes: dict[Key, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The top belongs to it."""
        self.members[self.top.key] = self.top

    def add(self, parent: Key, found: Iterable[Member]) -> list[Member]:
        """Put rows below their parent; those that are new to the tree."""
        new = []
        below = self.children.setdefault(parent, [])
        for each in found:
            if each.key not in self.members:
                self.members[each.key] = each
                below.append(each.key)
                new.append(each)
        return new

    def note(self, key: Key, text: str) -> None:
        """Add a note to a row."""
        self.notes.setdefault(key, []).append(text)

    def draw(self) -> StoryNode:
        """The whole tree."""
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
        """How many children there are besides those shown, by status."""
        if member.counts is None:
            hidden = Counter(self.looked.get(member.key, {}))
            hidden.subtract(each.status for each in shown)
        else:
            # What a batch counted itself is the whole. No members of it: its continuations, and
            # dead letters in history, whose replays took their place.
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
    """Among which of the counts of its batch a member is; they may lag behind its status."""
    for counted in (status, "skipped" if status == "cancelled" else "cancelled"):
        if status in ("succeeded", "failed", "cancelled", "dismissed") and hidden[counted] > 0:
            return counted
    return "unsettled"
