"""Judges how long something has had no live worker, and whether the grace is over.

Owns the clock of `worker.unhandled_grace`, and what commands and events that nobody handles have in
common. Promises that nothing is touched before the grace is over, so that a rolling deploy loses
nothing. Known limit: the grace counts from when this worker first saw a lane, so a restart of all
workers starts it anew.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TypeVar

import orjson

from inboxd.api.topics import DEFAULT
from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.lane import Key
from inboxd.store.connections import Connection
from inboxd.store.pools import transaction

K = TypeVar("K", bound=Key)


@dataclass(slots=True)
class Judgement:
    """Since when nobody has been there for each key of one task, and how long that is forgiven.

    is_open: given "topic" or "queue", its name and a type, whether it is not paused: what an
    operator holds back is nobody's failure.
    """

    context: MaintenanceContext
    grace: timedelta
    is_open: Callable[[str, str, str], bool]
    _since: dict[Key, float] = field(default_factory=dict, init=False)

    def due(self, abandoned: Collection[K]) -> list[K]:
        """Those that have been abandoned for the whole grace."""
        now = monotonic()
        self._since = {key: self._since.get(key, now) for key in abandoned}
        grace = self.grace.total_seconds()
        return [key for key in abandoned if now - self._since[key] >= grace]

    async def each_page(
        self, connection: Connection, page: Callable[[], Awaitable[tuple[int, bool]]]
    ) -> int:
        """How many rows all pages have ended, each in a transaction.

        `page` returns its rows, and whether there may be more.
        """
        total, more = 0, True
        while more:
            async with transaction(self.context.pool, connection):
                ended, more = await page()
            total += ended
        return total


def nobody(kind: str, type_: str, topic: str = DEFAULT) -> str:
    """The reason that dead letters and ignored events give."""
    where = f" in topic {topic!r}" if topic != DEFAULT else ""
    return f"no live worker handles {kind} type {type_!r}{where}"


def entry(reason: str) -> str:
    """An entry of `errors`."""
    return orjson.dumps({"error": reason}).decode()


def dead_letter(kind: str, type_: str, topic: str = DEFAULT) -> str:
    """The entry of `errors` of a dead letter that nobody handles."""
    reason = f"NoHandler: {nobody(kind, type_, topic)}"
    return entry(f"{reason}: install a plugin that declares it, then replay the row")
