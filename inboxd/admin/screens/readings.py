"""What pages have been read lately: many who look at the same page cost no more than one.

Owns one reading of each page that is kept open, and what it looks like. Promises: who opens a page
gets what was read after that was asked, by one for all who asked before the reading began; who
keeps it open gets what was read for all of them, at most `_FRESH` seconds old, or `_SURE` where the
overview has not changed meanwhile; each is read by one at a time, unless who opens it has waited
for `_PATIENCE` seconds: a page that is slow is nobody's queue. While
the database is away, the last reading of a page stays. Readings of visitors who may see different
things are kept apart. They are bounded in number and in bytes: what has not been asked for longest
goes first. Known limit: what changes without any number of the overview doing so is seen
`_SURE` seconds later.
*See:* `snapshot.py`, which says whether anything has changed.
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

_FRESH: Final = 2.0
_PATIENCE: Final = 1.0
_SURE: Final = 15.0
_MOST: Final = 200
_MOST_BYTES: Final = 32 * 1024**2
# Of one reading: languages, prefixes, and whether the database is away.
_MOST_LOOKS: Final = 16


@dataclass(frozen=True, slots=True)
class DrawnPage:
    """A page as HTML. revision: the same for two that show the same. bytes: what it takes."""

    html: str
    revision: str
    bytes: int


@dataclass(slots=True)
class ReadPage:
    """What was found. revision: of the overview then; read_at: by the monotonic clock."""

    page: ScreenPage | Elsewhere
    revision: str
    read_at: float
    _drawn: dict[Hashable, DrawnPage] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What it takes, about: each drawing, and what was found as much as the largest of them."""
        sizes = [each.bytes for each in self._drawn.values()]
        return sum(sizes) + max(sizes, default=0)

    @property
    def age(self) -> float:
        """Seconds since it was read."""
        return monotonic() - self.read_at

    def drawn(self, look: Hashable, draw: Callable[[], str]) -> DrawnPage:
        """The page in this look, drawn once."""
        if look not in self._drawn:
            if len(self._drawn) >= _MOST_LOOKS:
                self._drawn.clear()
            html = draw()
            digest = hashlib.blake2b(html.encode(), digest_size=8).hexdigest()
            self._drawn[look] = DrawnPage(html, digest, sys.getsizeof(html))
        return self._drawn[look]


@dataclass(slots=True)
class _Place:
    """The last reading of a page. begun: how many there were; ended: the number of the last one."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    reading: ReadPage | None = None
    begun: int = 0
    ended: int = 0


class Readings:
    """Those of one process."""

    def __init__(self) -> None:
        """None yet."""
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()

    async def opened(
        self, of: Hashable, seen: Seen, read: Callable[[], Awaitable[ScreenPage | Elsewhere]]
    ) -> ReadPage:
        """One that is read now; while the database is away the last one, if there is any."""
        place = self._place(of)
        known, first = place.begun, False
        with anyio.move_on_after(_PATIENCE):
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
        """The one that all share, read now if it is no longer good."""
        place = self._place(of)
        async with place.lock:
            held = place.reading
            if held is not None and (seen.trouble is not None or _is_good(held, seen)):
                return held
            return await _read(place, seen, read)

    def _place(self, of: Hashable) -> _Place:
        place = self._places.setdefault(of, _Place())
        self._places.move_to_end(of)
        # What is drawn meanwhile counts from the next request on.
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
    """Read it for all who wait for that."""
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
    return held.age < (_SURE if held.revision == seen.revision else _FRESH)
