"""The durations of many rows: their sum, their maximum, and a histogram in log buckets.

The first bucket ends at a millisecond, each further one is twice as wide, the last holds all from
18 hours on. Arrays in the database have the same order, and end with the last bucket that is not 0.
Addition is exact, in any order. A percentile is between half and twice the true one; in the first
bucket it is off by less than a millisecond; in the last it is at most the maximum.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import zip_longest
from math import ceil

BUCKETS = 28
# The end of each bucket except the last, in seconds; 2 ** -10 is about a millisecond.
BOUNDS = tuple(2.0**power for power in range(-10, BUCKETS - 11))
_LAST = BUCKETS - 1


class Durations:
    """Durations in seconds; negative ones, measured by two clocks, count as 0."""

    __slots__ = ("histogram", "maximum", "total")

    def __init__(
        self, total: float = 0.0, maximum: float = 0.0, histogram: Sequence[int] = ()
    ) -> None:
        self.total = total
        self.maximum = maximum
        self.histogram = list(histogram)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Durations) and self._all == other._all

    def __repr__(self) -> str:
        return f"Durations{self._all}"

    # Durations are mutable.
    __hash__ = None  # type: ignore[assignment]

    @property
    def _all(self) -> tuple[float, float, list[int]]:
        return self.total, self.maximum, self.histogram

    @property
    def count(self) -> int:
        return sum(self.histogram)

    def fold(self, ordered: list[float], total: float) -> None:
        histogram, at, end = self.histogram, 0, len(ordered)
        self.total += total
        self.maximum = max(self.maximum, ordered[-1])
        while at < end:
            bucket = bisect_right(BOUNDS, ordered[at])
            upto = end if bucket == _LAST else bisect_left(ordered, BOUNDS[bucket], at)
            if bucket >= len(histogram):
                histogram.extend([0] * (bucket + 1 - len(histogram)))
            histogram[bucket] += upto - at
            at = upto

    def add(self, other: "Durations") -> None:
        self.total += other.total
        self.maximum = max(self.maximum, other.maximum)
        both = zip_longest(self.histogram, other.histogram, fillvalue=0)
        self.histogram = [mine + its for mine, its in both]

    def percentile(self, share: float) -> float | None:
        """share: such as 0.95. None: no data. Within a bucket, a logarithmic scale is assumed."""
        rank, before = max(1, ceil(share * self.count)), 0
        for bucket, count in enumerate(self.histogram):
            if count and before + count >= rank:
                low = min(BOUNDS[bucket - 1], self.maximum) if bucket else 0.0
                high = min(BOUNDS[bucket], self.maximum) if bucket < _LAST else self.maximum
                part = (rank - before) / count
                return low * (high / low) ** part if low else high * part
            before += count
        return None
