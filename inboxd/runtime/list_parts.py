"""The events of a list, in memory or in their line, to be read, counted and halved.

Owns the two forms of a list. Promises that both are read in the same order and in the same way, and
that of one which stays in the database no more than a portion is in memory. What cannot be read is
remembered by id, and is no part of what the handler gets. Known limit: each reading of a list that
stays in the database decodes its events again.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from inboxd.api.lists import MOST_OUTCOMES
from inboxd.api.messages import Event
from inboxd.api.payload import decode
from inboxd.api.records import EventHandler, ListHandler
from inboxd.errors import NoHandler, PayloadError
from inboxd.runtime.parts import Parts
from inboxd.store import bodies
from inboxd.store.connections import Connection, Row
from inboxd.store.lists import Stretch

Events = Sequence[Event[Any]]
# JSON texts of large payloads, by body id.
Payloads = Mapping[int, str]
# What is asked for the rows of a list: the handler's own connection.
Ask = Callable[[], Any]


@dataclass(slots=True)
class Unread:
    """Events that could not be read, and why, by their ids."""

    errors: dict[int, tuple[Row, BaseException]] = field(default_factory=dict)

    def note(self, row: Row, error: BaseException) -> None:
        """Remember one. Raises PayloadError if there are too many to remember."""
        if len(self.errors) >= MOST_OUTCOMES:
            raise PayloadError(f"more than {MOST_OUTCOMES:,} events of the list cannot be read")
        self.errors[row["id"]] = (row, error)


class Part(Protocol):
    """A list, or a part of one."""

    size: int
    first: Row

    def read(self, ask: Ask, unread: Unread) -> AsyncIterator[Events]:
        """Its events in order, portion by portion."""

    def halves(self) -> "tuple[Part, Part]":
        """Two parts; only where `size` is 2 or more."""


class Held:
    """A list in memory, whose events have been read."""

    __slots__ = ("events", "first", "rows", "size")

    def __init__(self, rows: Sequence[Row], events: Events) -> None:
        """Hold `rows`, and those of their events that can be read."""
        self.rows = rows
        self.events = events
        self.size = len(rows)
        self.first = rows[0]

    async def read(self, ask: Ask, unread: Unread) -> AsyncIterator[Events]:  # noqa: ARG002 - it is here
        """All at once."""
        yield self.events

    def halves(self) -> "tuple[Held, Held]":
        """The older half, and the newer one."""
        middle = len(self.rows) // 2
        # By their ids one by one: a server that failed over may have drawn a lower id later.
        first = {row["id"] for row in self.rows[:middle]}
        older = [event for event in self.events if event.id in first]
        newer = [event for event in self.events if event.id not in first]
        return Held(self.rows[:middle], older), Held(self.rows[middle:], newer)


class Stored:
    """A list that stays in its line while it is read."""

    __slots__ = ("_handler", "_parts", "_rows", "first", "size", "stretch")

    def __init__(
        self,
        parts: Parts,
        handler: ListHandler,
        stretch: Stretch,
        size: int,
        first: Row,
    ) -> None:
        """Read `stretch`; `first` is its first row."""
        self._parts = parts
        self._handler = handler
        self._rows = handler.page_rows or parts.settings.events.page_rows
        self.stretch = stretch
        self.size = size
        self.first = first

    async def read(self, ask: Ask, unread: Unread) -> AsyncIterator[Events]:
        """As many at once as a page has."""
        topic, key, first, last = self.stretch
        most_bytes, sql = self._parts.settings.events.page_bytes, self._parts.sql
        after = first - 1
        while True:
            connection = ask()
            rows = await connection.fetch(sql["read_list"], topic, key, after, last, self._rows)
            if not rows:
                return
            after = rows[-1]["place"]
            for portion in bodies.portions(rows, most_bytes):
                payloads = await bodies.read(connection, sql, portion)
                yield read_rows(self._handler.readers, portion, payloads, unread)

    async def hold(self, connection: Connection, unread: Unread) -> Held | None:
        """The same in memory; None: nothing is left of it."""
        sql = self._parts.sql
        topic, key, first, last = self.stretch
        rows = await connection.fetch(sql["read_list"], topic, key, first - 1, last, self.size + 1)
        if not rows:
            return None
        payloads = await bodies.read(connection, sql, rows)
        return Held(rows, read_rows(self._handler.readers, rows, payloads, unread))

    def halves(self) -> "tuple[Stored, Stored]":
        """The older half of its places, and the newer one."""
        topic, key, first, last = self.stretch
        middle = (first + last) // 2
        older, newer = Stretch(topic, key, first, middle), Stretch(topic, key, middle + 1, last)
        half = self.size // 2
        make = partial(Stored, self._parts, self._handler, first=self.first)
        return make(older, self.size - half), make(newer, half)


def read_rows(
    readers: Mapping[str, EventHandler],
    rows: Sequence[Row],
    payloads: Payloads,
    unread: Unread,
) -> Events:
    """The events of rows; those that cannot be read are noted."""
    events = []
    for row in rows:
        reader = readers.get(row["type"])
        body = row["body_id"]
        raw = row["payload"] if body is None else payloads.get(body)
        try:
            if reader is None:
                raise NoHandler(f"the list handler of {row['topic']} does not take this type")  # noqa: TRY301 - as others
            events.append(Event(row, decode(reader, raw or "null", row["schema_version"])))
        except Exception as error:  # noqa: BLE001 - a payload's class may raise anything
            unread.note(row, error)
    return events
