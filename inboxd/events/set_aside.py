"""Passes over events whose outcome the database refuses, so that other events can run.

In a sequential topic its key stands still. Known limit: only this process remembers the events.
"""

import time
from collections.abc import Callable

# Seconds until an event is tried again: the cause of the refusal may be gone.
_RETRY_SECONDS = 60.0


class SetAside:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: returns seconds, and never goes back."""
        self._clock = clock
        self._until: dict[int, float] = {}

    @property
    def again(self) -> float | None:
        """Seconds until the next event is tried again; None: no event waits."""
        if not self._until:
            return None
        return max(0.0, min(self._until.values()) - self._clock())

    def put(self, row_id: int) -> None:
        self._until[row_id] = self._clock() + _RETRY_SECONDS

    def has(self, row_id: int) -> bool:
        if row_id not in self._until:
            return False
        if self._until[row_id] > self._clock():
            return True
        del self._until[row_id]
        return False
