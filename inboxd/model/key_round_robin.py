"""Whose turn it is: the ordering keys of a queue that may have something to run.

Owns the round: a key that was asked goes to its end only when a row of it has ended, so each
key gets an equal share however long its line is. Pure. Promises that a key stands in the round
once. Known limit: it knows the keys that were added; others are looked for from time to time.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class KeyRoundRobin:
    """The keys, the one that has waited longest for its turn first."""

    _round: deque[str] = field(default_factory=deque)
    _known: set[str] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self._round)

    def add(self, keys: Iterable[str]) -> None:
        """These may have something to run: their turn comes after that of all others."""
        for key in keys:
            if key not in self._known:
                self._known.add(key)
                self._round.append(key)

    def take(self, most: int) -> list[str]:
        """Those whose turn it is; they are in the round no more."""
        taken = [self._round.popleft() for _ in range(min(most, len(self._round)))]
        self._known.difference_update(taken)
        return taken

    def put_back(self, keys: Sequence[str]) -> None:
        """It did not come to their turn: it comes first."""
        fresh = [key for key in keys if key not in self._known]
        self._known.update(fresh)
        self._round.extendleft(reversed(fresh))


# Rows of one key that are worth more together than each by itself.
RUN = 16


def share(room: int, keys: int, longest: int) -> int:
    """How many rows to ask of each key, given the room for rows.

    longest: those of one key that may be leased together. Few keys share the room; of many, the
    first ones fill it, and the others' turn comes next.
    """
    return min(longest, max(RUN, -(-room // max(1, keys))))
