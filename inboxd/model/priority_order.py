"""The order in which lanes and limited queues of commands are claimed.

Smaller priorities come first; within a level the lane or queue that was given rows last comes last,
so no queue starves another of its priority. Known limit: each worker has its own turns.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from inboxd.model.lane import Lane


class Ask(NamedTuple):
    """One claim: the lanes of a level together, a queue that is claimed by itself, or suspects."""

    level: float
    queue: str  # "" unless it is a queue by itself
    lanes: Sequence[Lane] = ()


@dataclass(slots=True)
class PriorityOrder:
    priorities: Mapping[str, int]  # by queue; other queues have 0
    _last: dict[tuple[float, str], int] = field(default_factory=dict)
    _turns: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def reload(self, priorities: Mapping[str, int]) -> None:
        self.priorities = priorities

    def of(self, lane: Lane) -> int:
        queue, _, priority = lane.key
        return int(priority or 0) + self.priorities.get(str(queue), 0)

    def together(self, lanes: Iterable[Lane]) -> list[Ask]:
        return [
            Ask(level, "", list(of_level))
            for level, of_level in itertools.groupby(sorted(lanes, key=self.of), self.of)
        ]

    def alone(self, queue: str, lanes: Iterable[Lane]) -> Ask:
        return Ask(self.priorities.get(queue, 0), queue, sorted(lanes, key=self.of))

    def rank(self, ask: Ask) -> tuple[float, int]:
        return ask.level, self._last.get(ask[:2], 0)

    def gave(self, ask: Ask) -> None:
        self._last[ask[:2]] = next(self._turns)

    def forget(self) -> None:
        self._last.clear()
