"""Events that the database lets nobody requeue: passed over for a while, so that others go on.

Owns the memory of them. Promises that pages pass them over without an outcome, and that a key of a
sequential topic stands still behind its own. Known limit: the memory is this process's, and the log
alone shows them.
*See:* `page`, which puts them here; `page_run`, which passes them over.
"""

import time
from collections.abc import Callable

# Seconds after which one is tried again: somebody may have removed what refuses it.
_WHILE = 60.0


class SetAside:
    """Which events are passed over, and until when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is; clock: in seconds."""
        self._clock = clock
        self._until: dict[int, float] = {}

    @property
    def again(self) -> float | None:
        """Seconds until the first of them is tried again; None: there is none."""
        if not self._until:
            return None
        return max(0.0, min(self._until.values()) - self._clock())

    def put(self, row_id: int) -> None:
        """Pass this one over from now on."""
        self._until[row_id] = self._clock() + _WHILE

    def has(self, row_id: int) -> bool:
        """Whether this one is passed over now."""
        if row_id not in self._until:
            return False
        if self._until[row_id] > self._clock():
            return True
        del self._until[row_id]
        return False
