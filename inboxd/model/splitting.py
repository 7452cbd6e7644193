"""Splitting: finds the row at fault of a page that fails as a whole.

`Pieces` splits a failed part until its row at fault is alone. Its parts are next, the first row
first, so that the rows keep their order. Where the rows of a failed page are lost with their
transaction, `PageSize` makes the next pages smaller instead. The caller judges the failures.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Part = TypeVar("Part")
Row = TypeVar("Row")


class Pieces(Generic[Part]):
    """The parts of a page that are left to do; the body of a loop over them may add parts."""

    __slots__ = ("_last", "_next")

    def __init__(self, *parts: Part) -> None:
        self._next = deque(parts)
        self._last: deque[Part] = deque()

    def __iter__(self) -> Iterator[Part]:
        while self._next or self._last:
            yield (self._next or self._last).popleft()

    @property
    def more(self) -> bool:
        """Whether parts are left that were not postponed."""
        return bool(self._next)

    def next(self, *parts: Part) -> None:
        self._next.extendleft(reversed(parts))

    def postpone(self, part: Part) -> None:
        """Do a part after all parts that are not postponed."""
        self._last.append(part)

    def halve(self: "Pieces[Sequence[Row]]", part: Sequence[Row]) -> bool:
        """False: the part is a single row."""
        middle = len(part) // 2
        if middle:
            self.next(part[:middle], part[middle:])
        return bool(middle)

    def separate(self: "Pieces[Sequence[Row]]", part: Sequence[Row]) -> bool:
        """Do each row by itself. False: the part is a single row."""
        if len(part) > 1:
            self.next(*([row] for row in part))
        return len(part) > 1


@dataclass(slots=True)
class PageSize:
    """The number of rows of the next page: half of one that failed, doubled by each success."""

    now: int
    most: int
    fewest: int = 1

    def failed(self, size: int) -> None:
        self.now = max(self.fewest, size // 2)

    def went_well(self, size: int = 0) -> None:
        """A page that is larger than `now` began before the last failure, and proves nothing."""
        if size <= self.now:
            self.now = min(self.most, 2 * self.now)
