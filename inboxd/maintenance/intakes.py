"""Moves events that waited for a declaration into their topics, page by page.

An intake is finished when no event waits any more, and all transactions that were open after the
declaration have ended (later ones know it). Every worker does this, and so does `inboxd declare`:
workers share the pages. Known limit: an open producer delays the end of an intake.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple

from inboxd.model.outcome import explain
from inboxd.store import intakes, wakeups
from inboxd.store.intakes import Waiting
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Every sixth run searches for events that were written late.
_RARELY = 6

# Factor by which a page is smaller after a failure.
_LESS = 10

# A session for one statement, in a transaction of its own.
Borrow = Callable[[], AbstractAsyncContextManager[Session]]


class _Look(NamedTuple):
    """left: transactions that were open at the first look after a declaration, and may still be."""

    opened: datetime
    left: frozenset[str]


class Intakes:
    """Open intakes, as this process has seen them. taken: number of events that it moved itself."""

    def __init__(self, borrow: Borrow, *, notify: bool) -> None:
        self.taken = 0
        self._borrow = borrow
        self._notify = notify
        self._looks: dict[tuple[str, str], _Look] = {}
        self.open: list[Waiting] = []
        self._runs = 0
        self._pages: dict[tuple[str, str], int] = {}

    def holds(self, topic: str, type_: str) -> bool:
        """Whether an intake takes events from this topic, or into it."""
        return any(
            topic in each.topics or each.key in ((topic, type_), (topic, "")) for each in self.open
        )

    async def take(self) -> None:
        late = self._runs % _RARELY == 0
        self._runs += 1
        taken: Counter[tuple[str, str]] = Counter()
        found = await self._list(late=late)
        while found:
            await self._look()
            rows = {each: await self._take_page(each) for each in found}
            taken.update({each.key: count for each, count in rows.items()})
            again = [each for each, count in rows.items() if count]
            found = await self._list() if again else []
            found += [each for each in again if each.finished]
        for (origin, type_), count in taken.items():
            if count:
                _log.info("took events that waited", **_named(origin, type_), events=count)
        still = {each.key for each in self.open}
        self._looks = {key: look for key, look in self._looks.items() if key in still}

    async def _list(self, *, late: bool = False) -> list[Waiting]:
        """Intakes to work on; an intake that is only announced waits for its declaration."""
        async with self._borrow() as session:
            if late:
                await intakes.forget(session)
            found = await intakes.listed(session, late=late)
        self.open = [each for each in found if not each.finished]
        return [each for each in found if each.opened]

    async def _look(self) -> None:
        async with self._borrow() as session:
            writers = await intakes.writers(session)
        for each in self.open:
            look = self._looks.get(each.key)
            if each.opened is None:
                self._looks.pop(each.key, None)
            elif look is None or look.opened != each.opened:
                self._looks[each.key] = _Look(each.opened, writers)
            else:
                self._looks[each.key] = look._replace(left=look.left & writers)

    async def _take_page(self, each: Waiting) -> int:
        """After a failure the next page is smaller: a failing event delays no other intake."""
        page = self._pages.pop(each.key, intakes.PAGE)
        try:
            async with self._borrow() as session:
                rows = await intakes.take(session, each, page)
            if rows < page and await self._finish(each):
                self.open = [other for other in self.open if other.key != each.key]
        except intakes.Refused as error:
            self._pages[each.key] = max(1, page // _LESS)
            reason = explain(error).error
            _log.warning("waiting events were not moved", **_named(*each.key), reason=reason)
            return 0
        self.taken += rows
        return rows

    async def _finish(self, each: Waiting) -> bool:
        look = self._looks.get(each.key)
        if look is None or look.left:
            return False
        async with self._borrow() as session:
            done = await intakes.finish(session, each, look.opened)
            if done and self._notify:
                await wakeups.notify(session, "events")
        if done:
            _log.debug("all waiting events are moved into their topics", **_named(*each.key))
        return done


def _named(origin: str, type_: str) -> dict[str, object]:
    kind = {"type": type_} if type_ else {}
    return {"waited_in": origin, **kind}
