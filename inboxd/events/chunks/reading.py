"""The events of a chunk, in memory or in their line: read, counted and halved.

At most a portion of a stored chunk is in memory. Unreadable events are remembered by id; those that
the handler leaves unread are read after it, so that no unreadable event succeeds.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from inboxd.api.chunks import MOST_OUTCOMES
from inboxd.api.messages import Event
from inboxd.api.payload import decode
from inboxd.api.records import ChunkHandler, EventHandler
from inboxd.errors import NoHandler, PayloadError
from inboxd.settings import Events as Limits
from inboxd.store import bodies, chunks
from inboxd.store.chunks import Common, PositionRange
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session

Events = Sequence[Event[Any]]
# JSON texts of large payloads, by body id.
Payloads = Mapping[int, str]
# A half of a chunk is read into memory if it has at most this many events, and a page's bytes.
_SMALL = 1_000
# Returns a session of the handler's own connection, by which the rows are read.
Ask = Callable[[], Session]


@dataclass(slots=True)
class UnreadEvents:
    errors: dict[int, tuple[ClaimedEvent, BaseException]] = field(default_factory=dict)

    def note(self, row: ClaimedEvent, error: BaseException) -> None:
        """Remember an event. Raises PayloadError if there are too many."""
        if len(self.errors) >= MOST_OUTCOMES:
            raise PayloadError(f"more than {MOST_OUTCOMES:,} events of the chunk cannot be read")
        self.errors[row["id"]] = (row, error)


class ChunkPart(Protocol):
    size: int
    first: ClaimedEvent

    def read(self, ask: Ask, unread: UnreadEvents) -> AsyncIterator[Events]: ...

    @property
    def to_finish(self) -> bool: ...

    async def finish(self, session: Session, unread: UnreadEvents) -> None:
        """Read the events that the handler left unread, so that no unreadable event succeeds."""

    async def common(self, session: Session) -> Common: ...

    def unread(self, of_all: UnreadEvents) -> dict[int, tuple[ClaimedEvent, BaseException]]: ...

    def halves(self) -> "tuple[ChunkPart, ChunkPart]":
        """Two halves; `size` must be 2 or more."""


class HeldChunk:
    __slots__ = ("events", "first", "rows", "size")

    def __init__(self, rows: Sequence[ClaimedEvent], events: Events) -> None:
        """events: those of `rows` that can be read."""
        self.rows = rows
        self.events = events
        self.size = len(rows)
        self.first = rows[0]

    async def read(self, ask: Ask, unread: UnreadEvents) -> AsyncIterator[Events]:  # noqa: ARG002 - already in memory
        yield self.events

    @property
    def to_finish(self) -> bool:
        return False

    async def finish(self, session: Session, unread: UnreadEvents) -> None:
        """Do nothing: all events are read."""

    async def common(self, session: Session) -> Common:  # noqa: ARG002 - not needed here

        def same(column: Literal["correlation_id", "tenant"]) -> str | None:
            value = self.first[column]
            return value if all(row[column] == value for row in self.rows) else None

        return Common(same("correlation_id"), same("tenant"))

    def unread(self, of_all: UnreadEvents) -> dict[int, tuple[ClaimedEvent, BaseException]]:
        here = {row["id"] for row in self.rows} if of_all.errors else ()
        return {id_: each for id_, each in of_all.errors.items() if id_ in here}

    def halves(self) -> "tuple[HeldChunk, HeldChunk]":
        """The older half, and the newer half."""
        middle = len(self.rows) // 2
        # By ids: after a failover that lost data, their order may differ from the line's order.
        first = {row["id"] for row in self.rows[:middle]}
        older = [event for event in self.events if event.id in first]
        newer = [event for event in self.events if event.id not in first]
        return HeldChunk(self.rows[:middle], older), HeldChunk(self.rows[middle:], newer)


class StoredChunk:
    __slots__ = ("_handler", "_limits", "_read_to", "first", "size", "stretch")

    def __init__(
        self,
        limits: Limits,
        handler: ChunkHandler,
        stretch: PositionRange,
        size: int,
        first: ClaimedEvent,
    ) -> None:
        """stretch: its positions in the line; first: its first row; limits: those of a portion."""
        self._limits = limits
        self._handler = handler
        self.stretch = stretch
        self.size = size
        self.first = first
        self._read_to = stretch.first - 1

    async def read(self, ask: Ask, unread: UnreadEvents) -> AsyncIterator[Events]:
        async for portion in self._portions(ask, self.stretch.first - 1, unread):
            yield portion

    @property
    def to_finish(self) -> bool:
        return self._read_to < self.stretch.last

    async def finish(self, session: Session, unread: UnreadEvents) -> None:
        async for _ in self._portions(lambda: session, self._read_to, unread):
            pass

    async def _portions(self, ask: Ask, after: int, unread: UnreadEvents) -> AsyncIterator[Events]:
        topic, key, _, last = self.stretch
        most_rows = self._handler.page_rows or self._limits.page_rows
        while True:
            session = ask()
            rows = await chunks.read(session, PositionRange(topic, key, after + 1, last), most_rows)
            if not rows:
                return
            after = chunks.position_of(rows[-1])
            for portion in bodies.portions(rows, self._limits.page_bytes):
                payloads = await bodies.read(session, portion)
                whole = await bodies.complete(session, portion)
                events = read_rows(self._handler.readers, whole, payloads, unread)
                self._read_to = max(self._read_to, chunks.position_of(portion[-1]))
                yield events

    async def common(self, session: Session) -> Common:
        return await chunks.common_in(session, self.stretch, self.first)

    def unread(self, of_all: UnreadEvents) -> dict[int, tuple[ClaimedEvent, BaseException]]:
        _, _, first, last = self.stretch
        found = of_all.errors.items()
        return {id_: each for id_, each in found if first <= chunks.position_of(each[0]) <= last}

    async def left(self, session: Session) -> "StoredChunk | None":
        """The events that are still in the line, with their first row; None: there are none."""
        rows = await chunks.read(session, self.stretch, 1)
        return self._among(rows[0], self.stretch.last, self.size) if rows else None

    async def hold(
        self, session: Session, unread: UnreadEvents
    ) -> "HeldChunk | StoredChunk | None":
        """The remaining events in memory, if they are few; None: there are none."""
        last = self.stretch.last
        rows = await chunks.read(session, self.stretch, _SMALL + 1)
        if not rows:
            return None
        heavy = bodies.weight(rows) > self._limits.page_bytes
        if len(rows) > _SMALL:
            return self._among(rows[0], last, max(self.size, len(rows)))
        if heavy and len(rows) > 1:
            return self._among(rows[0], chunks.position_of(rows[-1]), len(rows))
        payloads = await bodies.read(session, rows)
        whole = await bodies.complete(session, rows)
        return HeldChunk(whole, read_rows(self._handler.readers, whole, payloads, unread))

    def _among(self, first: ClaimedEvent, last: int, size: int) -> "StoredChunk":
        stretch = self.stretch._replace(first=chunks.position_of(first), last=last)
        return StoredChunk(self._limits, self._handler, stretch, size, first)

    def halves(self) -> "tuple[StoredChunk, StoredChunk]":
        """The older half of its positions, and the newer half."""
        topic, key, first, last = self.stretch
        middle = (first + last) // 2
        older, newer = (
            PositionRange(topic, key, first, middle),
            PositionRange(topic, key, middle + 1, last),
        )
        half = self.size // 2
        make = partial(StoredChunk, self._limits, self._handler, first=self.first)
        return make(older, self.size - half), make(newer, half)


def read_rows(
    readers: Mapping[str, EventHandler],
    rows: Sequence[ClaimedEvent],
    payloads: Payloads,
    unread: UnreadEvents,
) -> Events:
    events = []
    for row in rows:
        reader = readers.get(row["type"])
        body = row["body_id"]
        raw = row["payload"] if body is None else payloads.get(body)
        try:
            if reader is None:
                raise NoHandler(f"the chunk handler of {row['topic']} does not take this type")  # noqa: TRY301 - raised like other errors
            events.append(Event(row, decode(reader, raw or "null", row["schema_version"])))
        except Exception as error:  # noqa: BLE001 - a payload's class may raise anything
            unread.note(row, error)
    return events
