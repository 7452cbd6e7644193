"""Whether rows come in a stream: then a worker that finds none looks again before it sleeps.

A worker that sleeps lets producers notify, and commits that notify wait for each other, each for a
flush of its own. In a stream that only paused, because a disk did, all of its producers would stand
in that line at once. Owns the judgement; pure. Promises that a stream is forgotten soon after it
has become a trickle. Known limit: it judges all types of a table together.
"""

# A stream: at least this rate in rows per second, at least this many rows, and the longest pause in
# seconds.
_RATE = 1_000
_LEAST = 100
LASTS = 0.2
# Seconds that are remembered, about.
_MEMORY = 1.0


class Stream:
    """The rows of the last moments."""

    __slots__ = ("_began", "_came", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._began = self._came = 0.0

    def come(self, rows: int, now: float) -> None:
        """Count rows that were found now, in seconds of any clock."""
        if now - self._came > LASTS:
            self._rows, self._began = 0, now
        elif now - self._began > _MEMORY:
            self._rows //= 2
            self._began += (now - self._began) / 2
        self._rows += rows
        self._came = now

    def lasts(self, now: float) -> bool:
        """Whether more is likely to come at once."""
        least = max(_LEAST, _RATE * (self._came - self._began))
        return now - self._came <= LASTS and self._rows >= least
