"""The exclusive run: a suspect runs alone in this process, and events rest meanwhile.

After `want` has returned True, no handler of events runs in this process until `end`. Known limit:
a page or chunk that has begun ends first.
"""

from collections.abc import Callable


class ExclusiveRun:
    def __init__(self, on_change: Callable[[], None], on_rest: Callable[[], None]) -> None:
        """on_change: wakes the processor of events; on_rest: tells the processor of commands."""
        self.wanted = False
        self._resting = False
        self._on_change = on_change
        self._on_rest = on_rest

    def want(self) -> bool:
        """Ask events to rest; returns whether they do."""
        if not self.wanted:
            self.wanted = True
            self._on_change()
        return self._resting

    def rest(self) -> None:
        """Events rest: none of their handlers runs, and none starts before `end`."""
        if self.wanted and not self._resting:
            self._resting = True
            self._on_rest()

    def end(self) -> None:
        if self.wanted:
            self.wanted = self._resting = False
            self._on_change()
