"""Streams of rows: while one lasts, a worker that finds no rows looks again before it sleeps.

A sleeping worker makes producers notify, and commits that notify wait for each other's flush: if a
stream only pauses, all its producers would queue. It covers all types of a table together.
"""

# A stream has at least this rate in rows per second, at least this many rows, and pauses of at most
# LASTS seconds.
_LEAST_RATE = 1_000
_LEAST_ROWS = 100
LASTS = 0.2
# Approximate time that is remembered, in seconds.
_MEMORY_SECONDS = 1.0


class Stream:
    __slots__ = ("_began", "_came", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._began = self._came = 0.0

    def come(self, rows: int, now: float) -> None:
        """Count rows that were found now; `now` is in seconds of any clock."""
        if now - self._came > LASTS:
            self._rows, self._began = 0, now
        elif now - self._began > _MEMORY_SECONDS:
            self._rows //= 2
            self._began += (now - self._began) / 2
        self._rows += rows
        self._came = now

    def lasts(self, now: float) -> bool:
        least = max(_LEAST_ROWS, _LEAST_RATE * (self._came - self._began))
        return now - self._came <= LASTS and self._rows >= least
