"""Measures for how long the machine stood still: a thread sleeps 50 ms, and notes late wake-ups.

The gate itself only waits for its stages, so the machine causes a late wake-up: all cores are busy,
or the virtual machine was paused. It excuses no failure, but separates slow machines from slow
code.
"""

import threading
import time
from typing import NamedTuple, Self

_BEAT_SECONDS = 0.05
_LATE_SECONDS = 0.25


class StoodStill(NamedTuple):
    """Seconds in all, and the longest single pause."""

    total: float
    longest: float

    def __str__(self) -> str:
        """The text for the report."""
        if not self.total:
            return "the machine never stood still"
        return (
            f"the machine stood still for {self.total:.1f} s, at most {self.longest:.1f} s at once"
        )


class Metronome:
    """A context manager that measures until the end of the `with` block."""

    def __init__(self) -> None:
        """Prepare the thread, which `with` starts."""
        self._pauses: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="metronome", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
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
