"""How far the arrivals of each bucket of a topic may be taken, although producers commit late.

Producers of one key draw ids in one order and may commit in another. Each holds the locks of its
topic and its bucket, shared, from before it draws an id until its transaction has ended. Owns the
judgement which ids are complete: a reading is the sequence's newest value and, looked up after it,
who holds each lock. Once all transactions that held a bucket, and the topic, at a reading have
ended, every id up to that reading's value is visible there or gone for good. Promises that a reader
that takes no id above the bound of its bucket, in a statement that begins after the reading was
taken in, never passes by a row that commits later; that under constant load the bound still moves,
since later producers draw larger ids; and that nobody holds up a topic into which they write
nothing. Pure. Known limit: a producer that stays open holds up the buckets that it has, of all the
topics into which it writes, for as long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeAlias

# Of the lines of each topic.
BUCKETS = 64
# The topic of who writes into one whose name is not known: into any.
ANY_TOPIC = ""
_Key: TypeAlias = tuple[str, int]  # a topic and a bucket
_NOBODY: frozenset[str] = frozenset()


class Holding(NamedTuple):
    """The locks of a transaction: of which buckets, and of which topics, or ANY_TOPIC."""

    buckets: frozenset[int]
    topics: frozenset[str] = frozenset({ANY_TOPIC})


@dataclass(frozen=True, slots=True)
class HorizonReading:
    """One look at the server.

    server: the life of the server. newest: the largest id that was drawn, read before the holders.
    holders: the transactions that have locks, and which. held: topics into which events are taken
    that waited elsewhere, in front of what has arrived (ADR 18).
    """

    server: Any
    newest: int
    holders: Mapping[str, Holding]
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
        self._open: dict[_Key, _Open] = {}
        # The topics in which each holder was seen: a name may become known, or be forgotten.
        self._topics: dict[str, frozenset[str]] = {}
        # Of these topics nothing is complete: what is taken into them may have any smaller id.
        self.held: frozenset[str] = frozenset()

    def bound(self, bucket: int, topic: str) -> int:
        """The largest id of a topic's bucket that may be taken; none while the topic is held."""
        if topic in self.held:
            return 0
        return min(self._bound(ANY_TOPIC, bucket), self._bound(topic, bucket))

    def _bound(self, topic: str, bucket: int) -> int:
        held = self._open.get((topic, bucket))
        return self._newest if held is None else held.bound

    def bounds(self) -> list[int]:
        """What is complete of each bucket, of any topic, for a statement that begins now."""
        found = [self._newest] * BUCKETS
        for (_, bucket), held in self._open.items():
            found[bucket] = min(found[bucket], held.bound)
        return found

    def forget(self) -> None:
        """The server may be another one: nothing is known of it."""
        self._server = None
        self._newest = 0
        self._open.clear()
        self._topics.clear()

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
        self._topics = {
            who: has.topics | self._topics.get(who, _NOBODY) for who, has in reading.holders.items()
        }
        holders: dict[_Key, set[str]] = {}
        for who, has in reading.holders.items():
            for key in product(self._topics[who], has.buckets):
                holders.setdefault(key, set()).add(who)
        for key in self._open.keys() | holders.keys():
            self._take_key(key, frozenset(holders.get(key, ())), reading.newest)
        self._newest = reading.newest
        return same

    def _take_key(self, key: _Key, holders: frozenset[str], newest: int) -> None:
        held = self._open.get(key)
        if held is None:
            bound = self._newest
        elif left := held.left & holders:
            self._open[key] = held._replace(left=left)
            return
        else:
            bound = held.coming
        if holders:
            self._open[key] = _Open(bound, newest, holders)
        else:
            self._open.pop(key, None)
