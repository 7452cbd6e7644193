"""What it takes to tell an event that came twice: the narrow interface of the record (R1.10).

Owns the words that its implementations share: the database's (`inboxd.store.dedup`), which serves
every insert, and the one in memory (`inboxd.testing`). Promises: of receptions with one key, topic
and source the first is told so, and every later one which event has the key, until the window is
over. Known limit: a key that was forgotten is a first again, so a window must exceed the longest
time after which a producer sends again (R1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An event with a dedup key, and what it says; `payload` is JSON text."""

    topic: str
    key: str
    event_id: UUID
    source: str = ""
    type: str
    schema_version: int = 1
    payload: str = "{}"


@dataclass(frozen=True, slots=True)
class Known:
    """The event that has the key already; `conflict`: it said something else."""

    event_id: UUID
    conflict: bool


@dataclass(frozen=True, slots=True)
class Windows:
    """How long keys are kept: by topic, by source, and where neither is named.

    Where both are named, the longer one counts: keeping a key too long costs room, forgetting it
    too early an effect that happens twice.
    """

    default: timedelta
    sources: Mapping[str, timedelta] = field(default_factory=dict)
    topics: Mapping[str, timedelta] = field(default_factory=dict)

    def of(self, topic: str, source: str) -> timedelta:
        """The window of a topic and a source."""
        named = [
            window
            for window in (self.topics.get(topic), self.sources.get(source))
            if window is not None
        ]
        return max(named, default=self.default)


class Record(Protocol):
    """Remembers keys, and forgets them when their time is over."""

    async def remember(self, received: Received) -> Known | None:
        """Record a key; the event that has it already, or None: this is the first."""

    async def forget(self, windows: Windows) -> int:
        """Forget every key whose window is over; how many."""
