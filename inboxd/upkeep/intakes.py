"""Taking in what waited for a declaration, page by page.

Owns the judgement when an intake is finished: once all who wrote events at a look after the
declaration have ended, since who comes later knows it, and nothing waits any more. Every worker
does this, and `inboxd declare`: whoever dies, the next one goes on, and two share the pages.
Promises that an intake which another worker has declared meanwhile is looked at anew. Known limit:
a producer that stays open keeps the topics waiting.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple

from inboxd.store import intakes, wakeups
from inboxd.store.connections import Connection
from inboxd.store.intakes import Waiting
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Turns from one look for what was written late to the next.
_RARELY = 6

# A connection for one statement, in a transaction of its own.
Borrow = Callable[[], AbstractAsyncContextManager[Connection]]


class _Look(NamedTuple):
    """Who wrote at the first look after a declaration, and is not known to have ended."""

    opened: datetime
    left: frozenset[str]


class Intakes:
    """What is to be taken, as this process saw it: `open`. taken: what it took itself."""

    def __init__(self, sql: Statements, borrow: Borrow, *, notify: bool) -> None:
        """Take on connections of `borrow`; notify: workers listen."""
        self.taken = 0
        self._sql = sql
        self._borrow = borrow
        self._notify = notify
        self._looks: dict[tuple[str, str], _Look] = {}
        self.open: list[Waiting] = []
        self._turns = 0

    def holds(self, topic: str, type_: str) -> bool:
        """Whether events of this topic are about to be taken, or others into it."""
        return any(
            topic in each.topics or each.key in ((topic, type_), (topic, "")) for each in self.open
        )

    async def turn(self) -> None:
        """Take all there is, and finish what is complete."""
        late = self._turns % _RARELY == 0
        self._turns += 1
        async with self._borrow() as connection:
            if late:
                await intakes.forget(connection, self._sql)
            found = await intakes.listed(connection, self._sql, late=late)
        self.open = [each for each in found if not each.finished]
        if found:
            await self._look()
            await self._take(found)
            finished = [each for each in self.open if await self._finish(each)]
            self.open = [each for each in self.open if each not in finished]
        still = {each.key for each in self.open}
        self._looks = {key: look for key, look in self._looks.items() if key in still}

    async def _look(self) -> None:
        """Who has ended of those who may not have known a declaration."""
        async with self._borrow() as connection:
            writers = await intakes.writers(connection, self._sql)
        for each in self.open:
            look = self._looks.get(each.key)
            if each.opened is None:
                self._looks.pop(each.key, None)
            elif look is None or look.opened != each.opened:
                self._looks[each.key] = _Look(each.opened, writers)
            else:
                self._looks[each.key] = look._replace(left=look.left & writers)

    async def _take(self, found: list[Waiting]) -> None:
        """Page by page, each in its turn, as long as there is anything."""
        taken: Counter[Waiting] = Counter()
        while found:
            again = []
            for each in found:
                async with self._borrow() as connection:
                    rows = await intakes.take(connection, self._sql, each)
                taken[each] += rows
                self.taken += rows
                if rows:
                    again.append(each)
            found = again
        for each, rows in taken.items():
            if rows:
                _log.info("took events that waited", **_named(each), events=rows)

    async def _finish(self, each: Waiting) -> bool:
        look = self._looks.get(each.key)
        if look is None or look.left:
            return False
        async with self._borrow() as connection:
            done = await intakes.finish(connection, self._sql, each, look.opened)
            if done and self._notify:
                await wakeups.notify(connection, self._sql, "events")
        if done:
            _log.debug("nothing waits any more for a declaration", **_named(each))
        return done


def _named(each: Waiting) -> dict[str, object]:
    kind = {"type": each.type} if each.type else {}
    return {"waited_in": each.origin, **kind, "topics": list(each.topics)}
