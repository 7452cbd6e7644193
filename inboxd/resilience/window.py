"""Recent calls, counted in buckets of time, in constant memory and time.

Known limit: old calls go bucket by bucket, so a window may be up to a tenth shorter.
"""

from dataclasses import dataclass, field

_BUCKETS = 10


@dataclass(slots=True)
class Window:
    seconds: float
    calls: int = 0
    failures: int = 0
    slow: int = 0
    _counts: list[list[int]] = field(init=False)
    # The number of the current bucket, counted from the clock's zero, and its end.
    _turn: int = field(init=False, default=0)
    _ends: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self._counts = [[0, 0, 0] for _ in range(_BUCKETS)]

    def add(self, now: float, *, failed: bool, slow: bool) -> None:
        if now >= self._ends:
            self.forget_old(now)
        bucket = self._counts[self._turn % _BUCKETS]
        bucket[0] += 1
        self.calls += 1
        if failed:
            bucket[1] += 1
            self.failures += 1
        if slow:
            bucket[2] += 1
            self.slow += 1

    def forget_old(self, now: float) -> None:
        """Forget calls older than the window; a clock that was set back forgets nothing."""
        if now < self._ends:
            return
        width = self.seconds / _BUCKETS
        turn = int(now // width)
        for old in range(max(self._turn + 1, turn - _BUCKETS + 1), turn + 1):
            bucket = self._counts[old % _BUCKETS]
            self.calls -= bucket[0]
            self.failures -= bucket[1]
            self.slow -= bucket[2]
            bucket[:] = (0, 0, 0)
        self._turn = max(turn, self._turn)
        self._ends = (self._turn + 1) * width

    def clear(self) -> None:
        self.calls = self.failures = self.slow = 0
        for bucket in self._counts:
            bucket[:] = (0, 0, 0)
