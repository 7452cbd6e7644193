"""Whether rows come in a stream: then who finds nothing for a moment looks again before it sleeps.

Who sleeps lets producers notify, and commits that notify wait for each other, each for a flush of
its own. In a stream that only paused, because a disk did, all of its producers would stand in that
line at once. Owns the judgement; pure. Promises that a stream is forgotten soon after it has become
a trickle. Known limit: it judges all types of a table together.
"""

# A stream has so many rows a second, and at least so many; it lasts so many seconds without any.
_RATE = 1_000
_LEAST = 100
LASTS = 0.2
# Seconds that are remembered, about.
_MEMORY = 1.0


class Stream:
    """What has come of late."""

    __slots__ = ("_began", "_came", "_rows")

    def __init__(self) -> None:
        self._rows = 0
        self._began = self._came = 0.0

    def come(self, rows: int, now: float) -> None:
        """So many rows were found now, in seconds of any clock."""
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
