"""Judges how long a key has had no living worker, and whether the grace is over.

The grace (`worker.unhandled_grace`) lets a rolling deploy lose nothing. It begins when this worker
first sees a lane, so a restart of all workers restarts it.
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
from inboxd.store.pools import transaction
from inboxd.store.session import Session

K = TypeVar("K", bound=Key)


@dataclass(slots=True)
class Judgement:
    """is_open: whether a "topic" or "queue" type is not paused; paused rows are not unhandled."""

    context: MaintenanceContext
    grace: timedelta
    is_open: Callable[[str, str, str], bool]
    _since: dict[Key, float] = field(default_factory=dict, init=False)

    def due(self, abandoned: Collection[K]) -> list[K]:
        """The keys without a worker for the whole grace."""
        now = monotonic()
        self._since = {key: self._since.get(key, now) for key in abandoned}
        grace = self.grace.total_seconds()
        return [key for key in abandoned if now - self._since[key] >= grace]

    async def each_page(
        self, session: Session, page: Callable[[], Awaitable[tuple[int, bool]]]
    ) -> int:
        """Each has a transaction. page: returns its number of rows, and whether more may follow."""
        total, more = 0, True
        while more:
            async with transaction(self.context.pool, session):
                ended, more = await page()
            total += ended
        return total


def unhandled_reason(kind: str, type_: str, topic: str = DEFAULT) -> str:
    where = f" in topic {topic!r}" if topic != DEFAULT else ""
    return f"no live worker handles {kind} type {type_!r}{where}"


def entry(reason: str) -> str:
    return orjson.dumps({"error": reason}).decode()


def dead_letter(kind: str, type_: str, topic: str = DEFAULT) -> str:
    reason = f"NoHandler: {unhandled_reason(kind, type_, topic)}"
    return entry(f"{reason}: install a plugin that declares it, then replay the row")
