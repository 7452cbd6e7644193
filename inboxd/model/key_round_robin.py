"""Turns of the ordering keys of a queue that may have something to run.

A key that was asked returns to the end only when a row of it has ended, so each key gets an equal
share however long its line is. Known limit: further keys are looked for from time to time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class KeyRoundRobin:
    """Ordering keys, the key that has waited longest first."""

    _round: deque[str] = field(default_factory=deque)
    _known: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._round)

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key not in self._known:
                self._known.add(key)
                self._round.append(key)

    def take(self, most: int) -> list[str]:
        taken = [self._round.popleft() for _ in range(min(most, len(self._round)))]
        self._known.difference_update(taken)
        return taken

    def put_back(self, keys: Sequence[str]) -> None:
        fresh = [key for key in keys if key not in self._known]
        self._known.update(fresh)
        self._round.extendleft(reversed(fresh))


# Fewer rows of one key in a claim are not worth the claim.
RUN = 16


def share(room: int, keys: int, longest: int) -> int:
    """longest: how many rows of one key may be leased together. A few keys share the room."""
    return min(longest, max(RUN, -(-room // max(1, keys))))
