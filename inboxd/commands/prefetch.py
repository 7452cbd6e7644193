"""How many commands a worker leases beyond those that run.

The measure is the time that a leased command waits for its start; before any was leased ahead, the
duration of commands (ADR 8). Nothing is leased ahead until commands have shown that they end
quickly. Known limit: all types of a worker are judged together.
"""

import math

# Seconds from lease to start: below `_SOON` lease more ahead; above `_LATE` less; above `_TOO_LATE`
# give back.
_SOON = 0.02
_LATE = 0.1
_TOO_LATE = 1.0
_FIRST = 32


class Prefetch:
    """ahead: how many commands may be leased in addition to those that run."""

    __slots__ = ("ahead", "took", "waited")

    def __init__(self) -> None:
        self.ahead = 0
        # Seconds that the last started command had waited for its start.
        self.waited = 0.0
        # Duration of the last ended command, in seconds.
        self.took = math.inf

    def claimed(self, *, full: bool, most: int, at_once: int) -> None:
        """full: there may be more rows. at_once: how many commands may run at a time."""
        if self.waited > _LATE:
            self.ahead //= 2
        elif full and self.waited < _SOON and (self.ahead or self.took * _FIRST < _LATE * at_once):
            self.ahead = min(most, max(_FIRST, 2 * self.ahead))

    def too_late_in(self, waits: float) -> float:
        """Seconds until a command that has waited for `waits` seconds should be given back."""
        return max(0.0, _TOO_LATE - waits)

    def is_too_late(self, waits: float) -> bool:
        """If the command is too late, nothing is leased ahead for a while."""
        if waits < _TOO_LATE:
            return False
        self.ahead = 0
        return True
