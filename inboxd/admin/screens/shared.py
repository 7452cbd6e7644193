"""What visitors of a process share besides the snapshot: totals, figures, names that are declared.

Promises that each is read at most once in its time, however many look, by one reader at a time; and
that one which could not be read, since it took too long, is no page's end, nor that of the
transaction which a page is behind a pooler.
Known limit: what is kept is bounded by `_MOST`; what has not been asked for longest goes first.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, TypeVar, cast

import anyio

from inboxd.errors import DatabaseError
from inboxd.store.connections import apart, explained
from inboxd.store.session import Session

_MOST: Final = 500

T = TypeVar("T")


@dataclass(slots=True)
class _Reading:
    """What was read, and when, by the process's monotonic clock."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    value: Any = None
    read_at: float = float("-inf")


class SharedReadings:
    """The readings of one process."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    async def get(
        self, session: Session, key: Hashable, seconds: float, read: Callable[[], Awaitable[T]]
    ) -> T | None:
        """What is called so, read now unless it is as new as that; None: it could not be read.

        session: on which it is read.
        """
        reading = self._readings.setdefault(key, _Reading())
        self._readings.move_to_end(key)
        while len(self._readings) > _MOST:
            self._readings.popitem(last=False)
        async with reading.lock:
            if monotonic() - reading.read_at >= seconds:
                try:
                    with explained(asked=session.connection):
                        async with apart(session.connection):
                            reading.value = await read()
                except DatabaseError:
                    reading.value = None
                reading.read_at = monotonic()
            return cast("T | None", reading.value)
