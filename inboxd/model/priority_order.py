"""The order in which the lanes and the limited queues of commands are asked for rows.

Owns the turns within a level. Pure. Promises that smaller priorities are asked first, and that of
one level the lane or queue that was given rows last is asked last, so that no queue starves another
of its priority. Known limit: the turns are those of one worker; others take theirs by themselves.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from inboxd.model.lane import Lane


class Ask(NamedTuple):
    """One claim: the lanes of a level together, a queue that is claimed by itself, or suspects."""

    level: float
    queue: str  # "": of no queue by itself
    lanes: Sequence[Lane] = ()


@dataclass(slots=True)
class PriorityOrder:
    """The priorities of queues, and whose turn it was last."""

    priorities: Mapping[str, int]  # of a queue; one that is not named has 0
    _last: dict[tuple[float, str], int] = field(default_factory=dict)
    _turns: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def reload(self, priorities: Mapping[str, int]) -> None:
        """Take over other priorities while running."""
        self.priorities = priorities

    def of(self, lane: Lane) -> int:
        """The level of a lane: its commands' own priority and its queue's, added."""
        queue, _, priority = lane.key
        return int(priority or 0) + self.priorities.get(str(queue), 0)

    def together(self, lanes: Iterable[Lane]) -> list[Ask]:
        """Lanes that are claimed together, level by level."""
        return [
            Ask(level, "", list(of_level))
            for level, of_level in itertools.groupby(sorted(lanes, key=self.of), self.of)
        ]

    def alone(self, queue: str, lanes: Iterable[Lane]) -> Ask:
        """A queue that is claimed by itself, with its lanes."""
        return Ask(self.priorities.get(queue, 0), queue, sorted(lanes, key=self.of))

    def rank(self, ask: Ask) -> tuple[float, int]:
        """What asks are sorted by: they are made in this order until there is no room left."""
        return ask.level, self._last.get(ask[:2], 0)

    def gave(self, ask: Ask) -> None:
        """It was given rows: its turn comes after that of the others of its level."""
        self._last[ask[:2]] = next(self._turns)

    def forget(self) -> None:
        """The server may be another one: all have the same right to the next turn."""
        self._last.clear()
