"""The graph of a workflow: steps by name, and the steps that each waits for.

A graph that passed `check` has no cycle, no edge to an unknown step, and at most one edge between
two steps. Cost is linear: 10,000 steps and edges take a few hundredths of a second. Known limit:
steps that can never run, because their conditions exclude each other further up, are not found; the
database settles them as skipped when that becomes clear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from inboxd.errors import UsageError

# Steps of a cycle that a message names.
_SHOWN = 12


class Condition(StrEnum):
    """The required end of a prerequisite; FINISHED: either end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FINISHED = "finished"


class Edge(NamedTuple):
    """A step or batch that must have ended, and the required end."""

    needs: str
    condition: Condition = Condition.SUCCEEDED


class Graph:
    __slots__ = ("_edges",)

    def __init__(self) -> None:
        self._edges: dict[str, dict[str, Condition]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._edges

    @property
    def edges(self) -> Mapping[str, Mapping[str, Condition]]:
        return MappingProxyType(self._edges)

    def add(self, name: str, after: Iterable[Edge] = ()) -> None:
        """Prerequisites may be added later. Raises UsageError, and then adds nothing."""
        if not name or "\0" in name:
            raise UsageError(f"{name!r} is not a valid step name: use text of one letter or more.")
        if name in self._edges:
            raise UsageError(f"There is a step {name!r} already: give each step a name of its own.")
        merged: dict[str, Condition] = {}
        for needed, condition in after:
            if needed == name:
                raise UsageError(f"The step {name!r} waits for itself: it would never run.")
            merged[needed] = _both(name, needed, merged.get(needed, condition), condition)
        self._edges[name] = merged

    def remove(self, name: str) -> None:
        """Remove the step that was added last, if its command could not be made."""
        del self._edges[name]

    def check(self) -> None:
        """Raise UsageError for an edge to an unknown step, or for a cycle."""
        self.order()

    def order(self) -> list[str]:
        """The steps, each after its prerequisites. Raises UsageError as `check` does."""
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
        for name in order:  # the list grows
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
        # Each step left waits for another step left, so walking back reaches a visited step.
        place: dict[str, int] = {}
        step = next(iter(left))
        while step not in place:
            place[step] = len(place)
            step = next(needed for needed in self._edges[step] if needed in left)
        return list(place)[place[step] :][::-1]


def _both(name: str, needed: str, one: Condition, other: Condition) -> Condition:
    """The stricter of two conditions: SUCCEEDED and FAILED include FINISHED."""
    if other in (one, Condition.FINISHED):
        return one
    if one == Condition.FINISHED:
        return other
    raise UsageError(
        f"The step {name!r} waits for {needed!r} to succeed and to fail: that is impossible."
    )


def _drawn(cycle: list[str]) -> str:
    names = [repr(name) for name in [*cycle, cycle[0]]]
    if len(names) > _SHOWN:
        names[_SHOWN // 2 : -_SHOWN // 2] = [f"… {len(names) - _SHOWN} more …"]
    return " -> ".join(names)
