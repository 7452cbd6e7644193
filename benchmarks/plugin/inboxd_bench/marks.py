"""What a handler leaves for the benchmark to see, in memory that both processes map.

Owns the layout. Promises that counting a call costs about a tenth of a microsecond and no system
call, and that the benchmark reads it at no cost to the worker or the server. Known limit: of notes
(latencies) only as many are kept as the file has room for.
"""

import mmap
import os
import time
from pathlib import Path
from typing import Self

_ROOM = 100_000
_BYTES = 8 * (_ROOM + 2)
_PLACE = "INBOXD_BENCH_MARKS"


class Marks:
    """Numbers: when the first handler was called, how many calls there were, notes."""

    def __init__(self, memory: bytearray | mmap.mmap) -> None:
        """Lie in this memory, all zero at the beginning."""
        self._numbers = memoryview(memory).cast("d")

    @classmethod
    def of_this_process(cls) -> Self:
        """As the environment says; without it, nobody looks."""
        place = os.environ.get(_PLACE)
        return cls(bytearray(_BYTES)) if place is None else cls.at(Path(place))

    @classmethod
    def at(cls, path: Path) -> Self:
        """In a file, which is made at its first use."""
        with path.open("a+b") as file:
            file.truncate(_BYTES)
            return cls(mmap.mmap(file.fileno(), _BYTES))

    @staticmethod
    def environment(path: Path) -> dict[str, str]:
        """What tells a process where its marks are."""
        return {_PLACE: str(path)}

    def called(self, rows: int = 1) -> None:
        """A handler was called, for so many rows."""
        if not self._numbers[1]:
            self._numbers[0] = time.monotonic()
        self._numbers[1] += rows

    def note(self, number: float) -> None:
        """A handler was called and found this number."""
        position = int(self._numbers[1])
        if position < _ROOM:
            self._numbers[2 + position] = number
        self.called()

    @property
    def first(self) -> float:
        """When the first handler was called, by the monotonic clock of the machine."""
        return self._numbers[0]

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return int(self._numbers[1])

    @property
    def notes(self) -> list[float]:
        """What handlers found."""
        return list(self._numbers[2 : 2 + min(self.calls, _ROOM)])
