"""The exclusive run: a suspect runs alone in this process, and events rest meanwhile.

Owns whether it is wanted, and whether events rest. Promises that no handler of events runs here
from when `want` has returned True until `end`. Known limit: a page, or a chunk, that has begun ends
first.
"""

from collections.abc import Callable


class ExclusiveRun:
    """Shared by the processors of events and commands."""

    def __init__(self, on_change: Callable[[], None], on_rest: Callable[[], None]) -> None:
        """Not wanted yet.

        on_change: wakes events, which must rest or may go on; on_rest: tells commands that they
        rest.
        """
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
        """No handler of events runs, and none will until `end`."""
        if self.wanted and not self._resting:
            self._resting = True
            self._on_rest()

    def end(self) -> None:
        """Let the processing of events go on."""
        if self.wanted:
            self.wanted = self._resting = False
            self._on_change()
