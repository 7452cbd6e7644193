"""Leases of commands that have not started: how many to take ahead, and which are unknown here.

The measure for leasing ahead is the time that a leased command waits for its start; before any was
leased ahead, the duration of commands (ADR 8). Nothing is leased ahead until commands have shown
that they end quickly. Known limit: all types of a worker are judged together.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from uuid import UUID

from inboxd.store import commands
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds from lease to start: below `_SOON` lease more ahead; above `_LATE` less; above `_TOO_LATE`
# give back.
_SOON = 0.02
_LATE = 0.1
_TOO_LATE = 1.0
_FIRST = 32
# Maximum share of the time that searches for lost claims may take.
_LOOK_SHARE = 1 / 100


class ReadyCommands(deque[tuple[ClaimedCommand, float]]):
    """Leased commands that have not started, in order, with the times of their leases."""

    @property
    def rows(self) -> Iterator[ClaimedCommand]:
        return (row for row, _ in self)

    @property
    def waited(self) -> float | None:
        """Seconds that the first command has waited for its start; None: all have started."""
        return monotonic() - self[0][1] if self else None

    def remove_all(self, which: Callable[[ClaimedCommand], bool]) -> list[ClaimedCommand]:
        """Remove these commands; returns them."""
        removed = [row for row in self.rows if which(row)]
        if removed:
            kept = [each for each in self if not which(each[0])]
            self.clear()
            self.extend(kept)
        return removed


class Expiries:
    """When leased commands expire that have not begun, on this process's monotonic clock."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def lease(self, rows: Sequence[ClaimedCommand]) -> None:
        now = monotonic()
        for row in rows:
            if row["expires_in"] is not None:
                self._at[row["id"]] = now + row["expires_in"]

    def end(self, row: ClaimedCommand) -> None:
        self._at.pop(row["id"], None)

    def has_passed(self, row: ClaimedCommand) -> bool:
        return bool(self._at) and self._at.get(row["id"], math.inf) <= monotonic()


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


class LostClaims:
    """Gives back commands that this worker holds without knowing it: a claim's answer was lost."""

    def __init__(self, pool: Pool, me: UUID, lease: float) -> None:
        """lease: the shortest time between two searches, in seconds."""
        self._pool = pool
        self._me = me
        self._lease = lease
        self._look_at = 0.0

    @property
    def due(self) -> bool:
        return monotonic() >= self._look_at

    def soon(self) -> None:
        """Search before the next page, since the answer to a claim may have been lost."""
        self._look_at = 0.0

    async def give_back(self, known: Iterable[int]) -> int:
        """known: the ids of all commands that this worker knows to hold."""
        began = monotonic()
        async with borrow(self._pool) as session:
            unknown = await commands.release(session, self._me, but=list(known))
        # While an old snapshot is open, a search reads all rows that this worker ever claimed.
        rest = (monotonic() - began) / _LOOK_SHARE
        self._look_at = monotonic() + max(self._lease, rest)
        if unknown:
            _log.warning("released commands of a claim without an answer", commands=unknown)
        return unknown
