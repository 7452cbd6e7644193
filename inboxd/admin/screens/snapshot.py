"""The overview that all visitors of a process share, whatever their number.

Promises that it is read at most once in `_FRESH_SECONDS`, only while somebody looks, by one reader
at a time; and that it stays, with its age, while the database is away. Known limit: a change that
no number of the overview shows (a payload, a label) makes no new revision.
"""

import hashlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Final

import anyio
import orjson

from inboxd.errors import DatabaseError, SchemaError
from inboxd.operations.figures import Flow, flows
from inboxd.operations.overview import completed, overview
from inboxd.settings import Settings
from inboxd.store.samples import Counts, CurrentCounts
from inboxd.store.session import Session

_FRESH_SECONDS: Final = 2.0
# For the completions and the flow of the last hour, which cost more.
_COMPLETED_SECONDS: Final = 30.0
# The span of the overview's throughput.
_MINUTES: Final = 5
_HOUR: Final = timedelta(hours=1)
# Fields that change with every reading, though nothing happened.
_AGES = frozenset({"age", "at", "newest_age", "silence", "seconds", "oldest", "rest"})

Look = Callable[[], AbstractAsyncContextManager[Session]]


@dataclass(frozen=True, slots=True)
class Seen:
    """read_at: by the monotonic clock.

    trouble: the error of the last attempt to read a newer overview; None: it succeeded.
    """

    document: dict[str, Any]
    counts: Counts
    revision: str
    read_at: float
    trouble: str | None = None

    @property
    def age(self) -> float:
        """Seconds since it was read."""
        return monotonic() - self.read_at

    @property
    def now(self) -> datetime:
        """It is calculated from when the overview was read."""
        sample = self.document["sample"]
        at: datetime = sample["at"]
        return at + timedelta(seconds=sample["age"] + self.age)


class Snapshot:
    def __init__(self, settings: Settings, look: Look) -> None:
        self._settings, self._look = settings, look
        self._seen: Seen | None = None
        self._asked_at = float("-inf")
        self._completed: list[dict[str, Any]] = []
        self._hour: list[Flow] = []
        self._completed_at = float("-inf")
        self._counts = CurrentCounts()
        self._lock = anyio.Lock()

    @property
    def last(self) -> Seen | None:
        return self._seen

    def expire(self) -> None:
        """An action changed something: the next request reads it again."""
        self._asked_at = float("-inf")
        self._counts = CurrentCounts()

    async def seen(self) -> Seen:
        """Raises DatabaseError or SchemaError, if there has never been one."""
        async with self._lock:
            if monotonic() - self._asked_at >= _FRESH_SECONDS:
                try:
                    self._seen = await self._read()
                except (DatabaseError, SchemaError) as error:
                    if self._seen is None:
                        raise
                    self._seen = replace(self._seen, trouble=str(error))
                self._asked_at = monotonic()
            assert self._seen is not None  # noqa: S101 - otherwise an error was raised
            return self._seen

    async def _read(self) -> Seen:
        async with self._look() as session:
            if monotonic() - self._completed_at >= _COMPLETED_SECONDS:
                self._completed = await completed(session)
                self._hour = await flows(session, _HOUR)
                self._completed_at = monotonic()
            current = await self._counts.read(session, self._settings)
            known = (self._completed, self._hour, current)
            found = await overview(session, _MINUTES, self._settings, *known)
        return Seen(found, current.sample.counts, _revision(found), monotonic())


def _revision(document: dict[str, Any]) -> str:
    progress = [{**each, "running": None} for each in document["progress"]]
    lasting = _lasting({**document, "progress": progress})
    told = orjson.dumps(lasting, default=str, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(told, digest_size=8).hexdigest()


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(each) for key, each in value.items() if key not in _AGES}
    if isinstance(value, list):
        return [_lasting(each) for each in value]
    return value
