"""The id up to which arrivals of each bucket may be read, although producers commit late.

Each producer holds a shared lock of its topic and its bucket, from before it draws an id until its
transaction has ended. A reading is the sequence's newest value and, read after it, the holders of
each lock. Once all transactions that held a bucket and the topic at a reading have ended, every id
up to that reading's value is visible there or gone for good. A reader that takes no id above the
bound of its bucket, in a statement that begins after the reading was taken in, never misses a row.
Known limit: a producer's open transaction holds up its buckets, in all topics to which it writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, TypeAlias

# Buckets of each topic.
BUCKETS = 64
# The topic of a producer whose topic is unknown: it may write to any.
ANY_TOPIC = ""
_Key: TypeAlias = tuple[str, int]  # a topic and a bucket
_NO_TOPICS: frozenset[str] = frozenset()


class Holding(NamedTuple):
    buckets: frozenset[int]
    topics: frozenset[str] = frozenset({ANY_TOPIC})


@dataclass(frozen=True, slots=True)
class HorizonReading:
    """server: its identity. newest: read before the holders. held: topics in intake (ADR 18)."""

    server: Any
    newest: int
    holders: Mapping[str, Holding]
    held: frozenset[str] = frozenset()


class _Open(NamedTuple):
    """A bucket with holders: its complete id, and the id that is complete once `left` has ended."""

    bound: int
    coming: int
    left: frozenset[str]


class Horizon:
    def __init__(self) -> None:
        self._server: Any = None
        self._newest = 0
        self._open: dict[_Key, _Open] = {}
        # The topics in which each holder was seen: a name may become known, or be forgotten.
        self._topics: dict[str, frozenset[str]] = {}
        # Nothing is complete in these topics: events that they take in may have any smaller id.
        self.held: frozenset[str] = frozenset()

    def bound(self, bucket: int, topic: str) -> int:
        """The largest complete id of a topic's bucket; 0 while the topic is held."""
        if topic in self.held:
            return 0
        return min(self._bound(ANY_TOPIC, bucket), self._bound(topic, bucket))

    def _bound(self, topic: str, bucket: int) -> int:
        held = self._open.get((topic, bucket))
        return self._newest if held is None else held.bound

    def bounds(self) -> list[int]:
        """The complete id of each bucket over all topics, for a statement that begins now."""
        found = [self._newest] * BUCKETS
        for (_, bucket), held in self._open.items():
            found[bucket] = min(found[bucket], held.bound)
        return found

    def forget(self) -> None:
        self._server = None
        self._newest = 0
        self._open.clear()
        self._topics.clear()

    def take(self, reading: HorizonReading) -> bool:
        """False: another server, or rewound ids; earlier readings are forgotten."""
        same = reading.server == self._server and reading.newest >= self._newest
        same = same or self._server is None
        if not same:
            self.forget()
        self._server = reading.server
        self.held = reading.held
        self._topics = {
            who: has.topics | self._topics.get(who, _NO_TOPICS)
            for who, has in reading.holders.items()
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
