"""A token bucket, which bounds the requests of a time; each process counts for itself."""

import time
from collections.abc import Callable


class Budget:
    """At most `burst` at once; `rate` more are allowed each second. It starts full."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._seen = burst, clock()

    @property
    def is_spent(self) -> bool:
        self._fill()
        return self._left < 1

    def spend(self) -> None:
        """Use up one unit of the budget, if one is left."""
        self._fill()
        self._left = max(0.0, self._left - 1)

    def _fill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._seen) * self._rate)
        self._seen = now
