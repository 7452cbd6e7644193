"""The chunk of events that a handler of a batch topic gets.

Owns both views of it, one for `async for` and one for handlers in threads, and the outcomes that a
handler sets for single events. Promises: events come in order; however long the chunk is, only a
portion of it is in memory; an outcome of a single event counts only if the handler ends well; after
the handler's end the chunk cannot be read or changed. Known limit: each reading of a chunk that
does not fit in memory queries the database again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import anyio.from_thread

from inboxd.api.messages import Event, row_of
from inboxd.errors import Reject, Retry, UsageError
from inboxd.model import duration
from inboxd.model.duration import Duration

P_co = TypeVar("P_co", covariant=True)

# With more outcomes, the chunk as a whole fails.
MOST_OUTCOMES = 100_000
_ENDED = "The handler has ended: its chunk cannot be used any more."

Portions = Callable[[], AsyncIterator[Sequence[Event[Any]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkInfo:
    """Facts about a chunk, known before it is read; named as in `EventChunk`."""

    topic: str
    key: str
    size: int
    since: datetime
    until: datetime
    missing: tuple[str, ...] = ()
    short: int = 0


class _Chunk(Generic[P_co]):
    """The parts that both views share."""

    __slots__ = ("_info", "_outcomes", "_portions")

    def __init__(self, info: ChunkInfo, portions: Portions) -> None:
        """Show the events of `portions`, which is called anew for each reading."""
        self._info = info
        self._portions: Portions | None = portions
        # Only the rows: payloads of a long chunk that were read must be freed.
        self._outcomes: dict[int, tuple[Any, Reject | Retry]] = {}

    def __len__(self) -> int:
        """The number of events; a chunk that is read in portions also counts unreadable events."""
        return self._info.size

    def __repr__(self) -> str:
        # Never the payloads: this text ends up in logs.
        return f"<{type(self).__name__} {self.topic} {self.key!r} ({len(self)} events)>"

    @property
    def topic(self) -> str:
        """The topic of all its events."""
        return self._info.topic

    @property
    def key(self) -> str:
        """The ordering key that its events share; empty where the topic has one chunk."""
        return self._info.key

    @property
    def since(self) -> datetime:
        """The start of the period that the chunk covers: the cron time before `until`.

        Without cron, the time when its oldest event was written.
        """
        return self._info.since

    @property
    def until(self) -> datetime:
        """The end of the period: the cron time, which is later than all events of the chunk.

        Without cron, or if an operator asked for the chunk earlier, the time when it was taken.
        """
        return self._info.until

    @property
    def missing(self) -> tuple[str, ...]:
        """The expected types (`expect=[…]`) without an event; empty: the set is complete."""
        return self._info.missing

    @property
    def short(self) -> int:
        """The number of expected events that are missing, by type or by number."""
        return self._info.short

    def reject(self, event: Event[Any], reason: str = "") -> None:
        """Make this event a dead letter when the handler has ended; the other events succeed."""
        self._say(event, Reject(reason))

    def retry(self, event: Event[Any], *, after: Duration | None = None, reason: str = "") -> None:
        """Run this event again, alone, by the retry policy or `after` a duration.

        It spends an attempt; after the last attempt, the event is a dead letter. The other events
        succeed.
        """
        if after is not None:
            duration.parse(after)
        self._say(event, Retry(after, reason))

    @property
    def outcomes(self) -> Mapping[int, tuple[Any, Reject | Retry]]:
        """The outcomes of single events, with their rows, by their ids; for the runtime."""
        return self._outcomes

    def end(self) -> None:
        """End the chunk; the runtime calls this when the handler has ended."""
        self._portions = None

    def _say(self, event: Event[Any], outcome: Reject | Retry) -> None:
        if self._portions is None:
            raise UsageError(_ENDED)
        if len(self._outcomes) >= MOST_OUTCOMES:
            raise UsageError(
                f"More than {MOST_OUTCOMES:,} events of one chunk have outcomes of their own: if "
                "that many fail, let the handler fail."
            )
        self._outcomes[event.id] = (row_of(event), outcome)

    def _read(self) -> AsyncIterator[Sequence[Event[P_co]]]:
        if self._portions is None:
            raise UsageError(_ENDED)
        return self._portions()


class EventChunk(_Chunk[P_co]):
    """The chunk as an async handler gets it: `async for event in events`."""

    __slots__ = ()

    async def __aiter__(self) -> AsyncIterator[Event[P_co]]:
        """Each event, in order."""
        async for portion in self._read():
            for event in portion:
                yield event

    def portions(self) -> AsyncIterator[Sequence[Event[P_co]]]:
        """Some events at a time, in order, for statements that take many: `async for`."""
        return self._read()


class BlockingEventChunk(_Chunk[P_co]):
    """The chunk as a sync handler gets it: `for event in events`, in its thread."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Event[P_co]]:
        """Each event, in order."""
        for portion in self.portions():
            yield from portion

    def portions(self) -> Iterator[Sequence[Event[P_co]]]:
        """Some events at a time, in order, for statements that take many."""
        reading = self._read()

        async def following() -> Sequence[Event[P_co]] | None:
            return await anext(reading, None)

        while (portion := anyio.from_thread.run(following)) is not None:
            yield portion
