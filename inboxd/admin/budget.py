"""How many requests may come in a time: a bucket that fills steadily.

Known limit: it is of one process.
"""

import time
from collections.abc import Callable


class Budget:
    """At most `burst` at once, and `rate` a second for long."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin full."""
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._seen = burst, clock()

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left just now."""
        self._fill()
        return self._left < 1

    def spend(self) -> None:
        """Count one, if there is one left."""
        self._fill()
        self._left = max(0.0, self._left - 1)

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
        self._seen = now
