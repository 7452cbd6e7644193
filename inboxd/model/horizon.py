"""How far the arrivals of each bucket may be taken, although producers commit late.

Producers of one key draw ids in one order and may commit in another. Each holds its bucket's lock,
shared, from before it draws an id until its transaction has ended. Owns the judgement which ids are
complete: a reading is the sequence's newest value and, looked up after it, who holds each lock.
Once all transactions that held a bucket at a reading have ended, every id up to that reading's
value is visible there or gone for good. Promises that a reader that takes no id above the bound of
its bucket, in a statement that begins after the reading was taken in, never passes by a row that
commits later; and that under constant load the bound still moves, since later producers draw larger
ids. Pure. Known limit: a producer that stays open holds up its buckets for as long, and none but
those.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Of the lines of each topic; producers share theirs over all topics.
BUCKETS = 64
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HorizonReading:
    """One look at the server.

    server: the life of the server. newest: the largest id that was drawn, read
    before the holders. holders: the transactions that hold each bucket's lock. held: topics into
    which events are taken that waited elsewhere, in front of what has arrived (ADR 18).
    """

    server: Any
    newest: int
    holders: Mapping[int, frozenset[str]]
    held: frozenset[str] = frozenset()


class _Open(NamedTuple):
    """A bucket with holders: what is complete, and what will be once `left` have ended."""

    bound: int
    coming: int
    left: frozenset[str]


class Horizon:
    """The bound of each bucket, from readings in their order."""

    def __init__(self) -> None:
        """Nothing is complete before the first reading."""
        self._server: Any = None
        self._newest = 0
        self._open: dict[int, _Open] = {}
        # Of these topics nothing is complete: what is taken into them may have any smaller id.
        self.held: frozenset[str] = frozenset()

    def bound(self, bucket: int, topic: str = "") -> int:
        """The largest id of this bucket that may be taken; of a topic: none while it is held."""
        if topic in self.held:
            return 0
        held = self._open.get(bucket)
        return self._newest if held is None else held.bound

    def bounds(self) -> list[int]:
        """The bound of each bucket: what is complete for a statement that begins now."""
        return [self.bound(bucket) for bucket in range(BUCKETS)]

    def forget(self) -> None:
        """The server may be another one: nothing is known of it."""
        self._server = None
        self._newest = 0
        self._open.clear()

    def take(self, reading: HorizonReading) -> bool:
        """Take a reading in; False: the server is another one, or its ids were rewound.

        Then all that was known is forgotten, and the reading is the first one.
        """
        same = reading.server == self._server and reading.newest >= self._newest
        same = same or self._server is None
        if not same:
            self.forget()
        self._server = reading.server
        self.held = reading.held
        for bucket in self._open.keys() | reading.holders.keys():
            self._take_bucket(bucket, reading)
        self._newest = reading.newest
        return same

    def _take_bucket(self, bucket: int, reading: HorizonReading) -> None:
        holders = reading.holders.get(bucket, _NOBODY)
        held = self._open.get(bucket)
        if held is None:
            bound = self._newest
        elif left := held.left & holders:
            self._open[bucket] = held._replace(left=left)
            return
        else:
            bound = held.coming
        if holders:
            self._open[bucket] = _Open(bound, reading.newest, holders)
        else:
            self._open.pop(bucket, None)
