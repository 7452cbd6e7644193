"""How long the machine stood still: a thread that sleeps 50 ms and notes when it woke late.

The gate itself only waits for its stages, so a late wake-up is the machine's: all cores busy, or a
virtual machine that was paused. It excuses no failure; it tells a slow machine from a slow product.
"""

import threading
import time
from typing import NamedTuple, Self

_BEAT_SECONDS = 0.05
_LATE_SECONDS = 0.25


class StoodStill(NamedTuple):
    """Seconds in all, and the longest of them in one piece."""

    total: float
    longest: float

    def __str__(self) -> str:
        """For a person."""
        if not self.total:
            return "the machine never stood still"
        return (
            f"the machine stood still for {self.total:.1f} s, at most {self.longest:.1f} s at once"
        )


class Metronome:
    """A context manager: it beats until the end of the `with` block."""

    def __init__(self) -> None:
        """Prepare the thread; `with` starts it."""
        self._pauses: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="metronome", daemon=True)

    def __enter__(self) -> Self:
        """Start to beat."""
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join()

    def between(self, began: float, ended: float) -> StoodStill:
        """Pauses that ended or began between two times, in seconds since the epoch."""
        found = [late for at, late in self._pauses if began <= at and at - late <= ended]
        return StoodStill(sum(found), max(found, default=0.0))

    def _beat(self) -> None:
        while True:
            before = time.monotonic()
            if self._over.wait(_BEAT_SECONDS):
                return
            late = time.monotonic() - before - _BEAT_SECONDS
            if late > _LATE_SECONDS:
                self._pauses.append((time.time(), late))
