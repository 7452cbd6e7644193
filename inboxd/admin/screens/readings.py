"""Shared readings of pages: many visitors of a page cost no more than one.

Promises: a visitor who opens a page gets a reading that began after the request, and waits for
another's at most `_PATIENCE_SECONDS`. An open page gets a shared reading that is at most
`_FRESH_SECONDS` old, or `_UNCHANGED_SECONDS` if the overview has not changed since. While the
database is away, the last reading of a page stays. Visitors with different rights never share a
reading. Readings are bounded in number and in bytes; the least recently used goes first. Known
limit: a change that alters no number of the overview is seen `_UNCHANGED_SECONDS` later.
"""

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

import anyio

from inboxd.admin.screens.screen import Elsewhere, ScreenPage
from inboxd.admin.screens.snapshot import Seen
from inboxd.errors import DatabaseError

_FRESH_SECONDS: Final = 2.0
_PATIENCE_SECONDS: Final = 1.0
_UNCHANGED_SECONDS: Final = 15.0
_MOST: Final = 200
_MOST_BYTES: Final = 32 * 1024**2
# Drawings of one reading: they differ by language, prefix, and trouble with the database.
_MOST_LOOKS: Final = 16


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """revision: a digest of the HTML. bytes: its size in memory."""

    html: str
    revision: str
    bytes: int


@dataclass(slots=True)
class ReadPage:
    """revision: that of the overview then. read_at: by the monotonic clock."""

    page: ScreenPage | Elsewhere
    revision: str
    read_at: float
    _drawn: dict[Hashable, DrawnPage] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """It is an estimate: the data count as much as the largest drawing."""
        sizes = [each.bytes for each in self._drawn.values()]
        return sum(sizes) + max(sizes, default=0)

    @property
    def age(self) -> float:
        """Seconds since it was read."""
        return monotonic() - self.read_at

    def drawn(self, look: Hashable, draw: Callable[[], str]) -> DrawnPage:
        if look not in self._drawn:
            if len(self._drawn) >= _MOST_LOOKS:
                self._drawn.clear()
            html = draw()
            digest = hashlib.blake2b(html.encode(), digest_size=8).hexdigest()
            self._drawn[look] = DrawnPage(html, digest, sys.getsizeof(html))
        return self._drawn[look]


@dataclass(slots=True)
class _Place:
    """begun, ended: numbers of the newest reading that has begun, or ended."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    reading: ReadPage | None = None
    begun: int = 0
    ended: int = 0


class Readings:
    def __init__(self) -> None:
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()

    async def opened(
        self, of: Hashable, seen: Seen, read: Callable[[], Awaitable[ScreenPage | Elsewhere]]
    ) -> ReadPage:
        """Without the database, return the last reading, if there is one."""
        place = self._place(of)
        known, first = place.begun, False
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await place.lock.acquire()
            first = True
        try:
            if place.reading is not None and place.ended > known:
                return place.reading
            return await _read(place, seen, read)
        finally:
            if first:
                place.lock.release()

    async def kept(
        self, of: Hashable, seen: Seen, read: Callable[[], Awaitable[ScreenPage | Elsewhere]]
    ) -> ReadPage:
        place = self._place(of)
        async with place.lock:
            held = place.reading
            if held is not None and (seen.trouble is not None or _is_good(held, seen)):
                return held
            return await _read(place, seen, read)

    def _place(self, of: Hashable) -> _Place:
        place = self._places.setdefault(of, _Place())
        self._places.move_to_end(of)
        # Drawings made since the last request count from this one on.
        while len(self._places) > _MOST or self._bytes() > _MOST_BYTES:
            if len(self._places) == 1:
                break
            self._places.popitem(last=False)
        return place

    def _bytes(self) -> int:
        readings = [place.reading for place in self._places.values()]
        return sum(each.bytes for each in readings if each is not None)


async def _read(
    place: _Place, seen: Seen, read: Callable[[], Awaitable[ScreenPage | Elsewhere]]
) -> ReadPage:
    place.begun += 1
    number = place.begun
    try:
        reading = ReadPage(await read(), seen.revision, monotonic())
    except DatabaseError:
        if place.reading is None or seen.trouble is None:
            raise
        reading = place.reading
    if number > place.ended:
        place.reading, place.ended = reading, number
    return reading


def _is_good(held: ReadPage, seen: Seen) -> bool:
    return held.age < (_UNCHANGED_SECONDS if held.revision == seen.revision else _FRESH_SECONDS)
