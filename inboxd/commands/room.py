"""The room for the next page of commands: how much there is, and the processor's wait for it.

Known limit: outcomes that wait to be written take the room of commands.
"""

import asyncio
from collections.abc import Callable

import anyio

from inboxd.commands.admission import Admission
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.execution import CooperativeYield

# At most this many outcomes wait to be written; further ones take the room of commands.
_MOST_BEHIND = 1_000
# The longest wait for room, in seconds.
_LONGEST_WAIT = 1.0


class CommandRoom:
    def __init__(
        self,
        admission: Admission,
        outcomes: UnwrittenOutcomes,
        yields: CooperativeYield,
        wake: Callable[[], None],
    ) -> None:
        """yields: between the commands of a page. wake: wakes the processor."""
        self._admission = admission
        self._outcomes = outcomes
        self._yields = yields
        self.wake = wake
        # The next page is claimed when at most this many commands are left.
        self._refill_at = 0
        self._freed = asyncio.Event()
        # Whether the processor waits for room without a time limit.
        self._wanted = False

    def begin_page(self) -> None:
        self._freed.clear()

    def free(self) -> int:
        """How many commands the next page may lease."""
        # Commands whose outcomes wait to be written are still leased: many of them take room.
        behind = max(0, self._outcomes.waiting - _MOST_BEHIND)
        ahead = self._admission.prefetch.ahead
        most = self._admission.limits.concurrency + ahead
        self._refill_at = most - 1 - ahead // 2
        return most - self._admission.in_flight - behind

    async def wait(self, within: float | None = None) -> None:
        """Wait until a command ends, for `within` seconds at most (default: one second)."""
        self._wanted = within is None
        try:
            with anyio.move_on_after(_LONGEST_WAIT if within is None else within):
                await self._freed.wait()
        finally:
            self._wanted = False
        self._freed.clear()

    def follow_each_end(self) -> None:
        """End a wait at each end of a command, since no further page is claimed."""
        self._refill_at = self._admission.in_flight

    def ended(self, *, again: bool) -> None:
        """End the wait if enough commands have ended. again: a queue has room that had none."""
        if self._admission.in_flight <= self._refill_at and not self._freed.is_set():
            self._freed.set()
            if self._wanted and self._outcomes.waiting <= _MOST_BEHIND:
                # Claim the next page while the rest of this one runs, even if its commands are
                # quick.
                self._yields.want()
        if again or self._admission.turned_away:
            self._admission.ask_again()
            self.wake()

    def look_again(self) -> None:
        """End the wait, since other commands than before may be claimed."""
        self._freed.set()
        self.wake()
