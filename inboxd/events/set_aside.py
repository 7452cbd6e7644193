"""Events whose outcome the database refuses to write: passed over for a while, so others run.

Owns the memory of them. Promises that pages pass them over without an outcome, and that a key of a
sequential topic stands still behind its own. Known limit: only this process remembers them, and
only the log shows them.
*See:* `page`, which puts them here; `page_run`, which passes them over.
"""

import time
from collections.abc import Callable

# Time until one is tried again: the cause of the refusal may be gone by then.
_RETRY_SECONDS = 60.0


class SetAside:
    """Which events are passed over, and until when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: returns seconds, and never goes back."""
        self._clock = clock
        self._until: dict[int, float] = {}

    @property
    def again(self) -> float | None:
        """Seconds until the first of them is tried again; None: there are none."""
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
