"""The record of dedup keys in memory, for tests of what receives events.

Owns `MemoryRecord`. Promises the answers of the database's record; both pass the same tests.
Known limit: its clock is its own, and nothing is undone when a transaction rolls back. It takes
keys that a row may not have (of none or more than 255 bytes), and what Python takes for JSON but
PostgreSQL does not: NaN, an escaped NUL, half of a surrogate pair, numbers too long for numeric.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from inboxd.model.dedup import Known, Received, Windows

_Key = tuple[str, str, str]


@dataclass(slots=True)
class MemoryRecord:
    """Keys in a dict; `clock` tells the time, with its zone."""

    clock: Callable[[], datetime] = field(default=partial(datetime.now, UTC))
    _seen: dict[_Key, tuple[UUID, Any, datetime]] = field(default_factory=dict)

    async def remember(self, received: Received) -> Known | None:
        """Record a key; the event that has it already, or None: this is the first."""
        saying = (received.type, received.schema_version, _body(received.payload))
        key = (received.topic, received.source, received.key)
        first = self._seen.get(key)
        if first is None:
            self._seen[key] = (received.event_id, saying, self.clock())
            return None
        return Known(first[0], conflict=first[1] != saying)

    async def forget(self, windows: Windows) -> int:
        """Forget every key whose window is over; how many."""
        now = self.clock()
        over = [
            key
            for key, (_, _, seen_at) in self._seen.items()
            if now - seen_at > windows.of(key[0], key[1])
        ]
        for key in over:
            del self._seen[key]
        return len(over)


def _body(payload: str) -> Any:
    """What differs where jsonb differs: 1 is neither 1.0 nor true; 100 is 1e2."""
    return json.loads(payload, parse_int=_number, parse_float=_number)


def _number(text: str) -> tuple[str, str]:
    number = Decimal(text)
    return ("number", format(number or number.copy_abs(), "f"))  # -0 is 0
