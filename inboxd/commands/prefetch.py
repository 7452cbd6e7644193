"""How many commands a worker leases beyond those that run.

Commands that end at once are drained page by page, so a page should be large; slow commands should
be leased no earlier than they can start, so that other workers find them. The time that a leased
command waited for its start tells the two apart; as long as none was leased ahead, and so none had
to wait, the time that commands take does. Owns that judgement (ADR 8); pure. Promises that nothing
is leased ahead until commands have shown that they end quickly, and that a command which waited too
long is given back. Known limit: it judges all types of a worker together.
"""

import math

# Seconds from the lease to the start: below, lease more ahead; above, less; far above, give back.
_SOON = 0.02
_LATE = 0.1
_TOO_LATE = 1.0
_FIRST = 32


class Prefetch:
    """ahead: how many commands may be leased beyond those that run."""

    __slots__ = ("ahead", "took", "waited")

    def __init__(self) -> None:
        self.ahead = 0
        # How long the last command that started had waited for its start, in seconds.
        self.waited = 0.0
        # How long the last command that ended took, in seconds.
        self.took = math.inf

    def claimed(self, *, full: bool, most: int, at_once: int) -> None:
        """A page was claimed; full: there may be more. Lease up to `most` beyond `at_once`."""
        if self.waited > _LATE:
            self.ahead //= 2
        elif full and self.waited < _SOON and (self.ahead or self.took * _FIRST < _LATE * at_once):
            self.ahead = min(most, max(_FIRST, 2 * self.ahead))

    def too_late_in(self, waits: float) -> float:
        """Seconds until a command that has waited for `waits` seconds should be given back."""
        return max(0.0, _TOO_LATE - waits)

    def is_too_late(self, waits: float) -> bool:
        """Whether it should be given back now; then nothing is leased ahead for a while."""
        if waits < _TOO_LATE:
            return False
        self.ahead = 0
        return True
