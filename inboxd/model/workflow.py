"""The graph of a workflow: steps by name, and what each of them waits for.

Owns the rules of the graph. Promises: a graph that passed `check` has no cycle, no edge to a step
that is not there, and at most one edge between two steps, so that its edges can be counted
down; a refusal names the steps, and of a cycle the whole way round. Cost grows with steps and edges
alone: 10,000 of them take a few hundredths of a second.
Known limit: steps that can never run, since what they wait for excludes itself further up, are not
found; the database settles them as skipped when it turns out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from inboxd.errors import UsageError

# Steps of a cycle that a message shows.
_SHOWN = 12


class Condition(StrEnum):
    """What a prerequisite must have come to: either of the two, or just its end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FINISHED = "finished"


class Edge(NamedTuple):
    """A step, or a batch, that must have ended in a certain way first."""

    needs: str
    condition: Condition = Condition.SUCCEEDED


class Graph:
    """The steps of one workflow, in the order in which they were added."""

    __slots__ = ("_edges",)

    def __init__(self) -> None:
        """Begin with no steps."""
        self._edges: dict[str, dict[str, Condition]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._edges

    @property
    def edges(self) -> Mapping[str, Mapping[str, Condition]]:
        """What each step waits for."""
        return MappingProxyType(self._edges)

    def add(self, name: str, after: Iterable[Edge] = ()) -> None:
        """Add a step that waits for others, which may be added later.

        Raises UsageError for an empty name or one that is taken, for a step that waits for itself,
        and for conditions that exclude each other; then nothing was added.
        """
        if not name or "\0" in name:
            raise UsageError(f"{name!r} is not a valid step name: use text of one letter or more.")
        if name in self._edges:
            raise UsageError(f"There is a step {name!r} already: each needs a name of its own.")
        merged: dict[str, Condition] = {}
        for needed, condition in after:
            if needed == name:
                raise UsageError(f"The step {name!r} waits for itself: it would never run.")
            merged[needed] = _both(name, needed, merged.get(needed, condition), condition)
        self._edges[name] = merged

    def remove(self, name: str) -> None:
        """Take a step back that was added last, and could not be made."""
        del self._edges[name]

    def check(self) -> None:
        """Raise UsageError for an edge to a step that is not there, or for a cycle."""
        self.order()

    def order(self) -> list[str]:
        """The steps, each after those that it waits for. Raises UsageError as `check` does."""
        for name, edges in self._edges.items():
            for needed in edges:
                if needed not in self._edges:
                    raise UsageError(
                        f"The step {name!r} waits for {needed!r}, which is not a step "
                        "of the workflow."
                    )
        left = {name: len(edges) for name, edges in self._edges.items()}
        waiting: dict[str, list[str]] = {}
        for name, edges in self._edges.items():
            for needed in edges:
                waiting.setdefault(needed, []).append(name)
        order = [name for name, count in left.items() if not count]
        for name in order:  # it grows
            del left[name]
            for next_ in waiting.get(name, ()):
                left[next_] -= 1
                if not left[next_]:
                    order.append(next_)
        if left:
            raise UsageError(
                f"The steps wait for each other in a circle: {_drawn(self._way(left))}."
            )
        return order

    def _way(self, left: Collection[str]) -> list[str]:
        """Once round a cycle, each waiting for the one before it."""
        # Whatever is left waits for something that is left: walking there ends where it has been.
        place: dict[str, int] = {}
        step = next(iter(left))
        while step not in place:
            place[step] = len(place)
            step = next(needed for needed in self._edges[step] if needed in left)
        return list(place)[place[step] :][::-1]


def _both(name: str, needed: str, one: Condition, other: Condition) -> Condition:
    """The condition that says both: what succeeded or failed has finished as well."""
    if other in (one, Condition.FINISHED):
        return one
    if one == Condition.FINISHED:
        return other
    raise UsageError(f"The step {name!r} waits for {needed!r} to succeed and to fail: it cannot.")


def _drawn(cycle: list[str]) -> str:
    names = [repr(name) for name in [*cycle, cycle[0]]]
    if len(names) > _SHOWN:
        names[_SHOWN // 2 : -_SHOWN // 2] = [f"… {len(names) - _SHOWN} more …"]
    return " -> ".join(names)
