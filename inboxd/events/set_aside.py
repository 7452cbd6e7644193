"""Passes over events whose outcome the database refuses, so that other events can run.

Promises that pages give such an event no outcome, and that in a sequential topic its key stands
still. Known limit: only this process remembers the events, and only the log shows them. *See:*
`page`, which sets events aside; `page_run`, which passes them over.
"""

import time
from collections.abc import Callable

# Seconds until an event is tried again: the cause of the refusal may be gone.
_RETRY_SECONDS = 60.0


class SetAside:
    """Events to pass over, and the time until which each is."""

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
        """Pass this event over from now on."""
        self._until[row_id] = self._clock() + _RETRY_SECONDS

    def has(self, row_id: int) -> bool:
        """Whether this event is passed over now."""
        if row_id not in self._until:
            return False
        if self._until[row_id] > self._clock():
            return True
        del self._until[row_id]
        return False
