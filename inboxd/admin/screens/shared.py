"""Values that visitors of a process share besides the snapshot: totals, figures, declared names.

Promises that each is read by one reader at a time; and that a reading that takes too long fails
neither the page nor the page's transaction (behind a pooler, a page is one transaction). Known
limit: at most `_MOST` values are kept; the least recently used goes first.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, TypeVar, cast

import anyio

from inboxd.errors import DatabaseError
from inboxd.store.connections import explained
from inboxd.store.session import Session

_MOST: Final = 500

T = TypeVar("T")


@dataclass(slots=True)
class _Reading:
    """The last value, and when it was read, by the monotonic clock."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    value: Any = None
    read_at: float = float("-inf")


class SharedReadings:
    def __init__(self) -> None:
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    async def get(
        self, session: Session, key: Hashable, seconds: float, read: Callable[[], Awaitable[T]]
    ) -> T | None:
        """It is at most `seconds` old; None: it could not be read."""
        reading = self._readings.setdefault(key, _Reading())
        self._readings.move_to_end(key)
        while len(self._readings) > _MOST:
            self._readings.popitem(last=False)
        async with reading.lock:
            if monotonic() - reading.read_at >= seconds:
                try:
                    with explained(asked=session.connection):
                        async with session.apart():
                            reading.value = await read()
                except DatabaseError:
                    reading.value = None
                reading.read_at = monotonic()
            return cast("T | None", reading.value)
