"""Numbers of handlers that the benchmark reads, in memory that both processes map.

Owns the layout. Promises: counting a call costs about a tenth of a microsecond and no system call;
reading costs neither worker nor server anything.
Known limit: only as many notes (latencies) are kept as the file has room for.
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
    """Numbers: the time of the first call, the number of calls, and notes."""

    def __init__(self, memory: bytearray | mmap.mmap) -> None:
        """Use this memory, which is all zero at the beginning."""
        self._numbers = memoryview(memory).cast("d")

    @classmethod
    def of_this_process(cls) -> Self:
        """The marks that the environment names; without a name, memory of this process alone."""
        place = os.environ.get(_PLACE)
        return cls(bytearray(_BYTES)) if place is None else cls.at(Path(place))

    @classmethod
    def at(cls, path: Path) -> Self:
        """The marks in a file, which is created at its first use."""
        with path.open("a+b") as file:
            file.truncate(_BYTES)
            return cls(mmap.mmap(file.fileno(), _BYTES))

    @staticmethod
    def environment(path: Path) -> dict[str, str]:
        """The environment variable that names a process's marks."""
        return {_PLACE: str(path)}

    def called(self, rows: int = 1) -> None:
        """Count the call of a handler, for `rows` rows."""
        if not self._numbers[1]:
            self._numbers[0] = time.monotonic()
        self._numbers[1] += rows

    def note(self, number: float) -> None:
        """Count the call of a handler, and record its number."""
        position = int(self._numbers[1])
        if position < _ROOM:
            self._numbers[2 + position] = number
        self.called()

    @property
    def first(self) -> float:
        """The time of the first call, by the machine's monotonic clock."""
        return self._numbers[0]

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return int(self._numbers[1])

    @property
    def notes(self) -> list[float]:
        """The numbers that handlers recorded."""
        return list(self._numbers[2 : 2 + min(self.calls, _ROOM)])
