"""Outcomes of commands that are handed over and not written yet, in their order.

The numbers of outcomes handed over and written only grow: a key is asked again once all outcomes up
to a number are written. *See:* `run`, which hands over; `settler`, which writes.
"""

from collections.abc import Iterable

import anyio

from inboxd.commands.ended import EndedCommand
from inboxd.store.rows import ClaimedCommand

_MOST_GATHERED = 2_000


class UnwrittenOutcomes:
    def __init__(self) -> None:
        # Number of outcomes handed over, and number of written ones, in the same order.
        self.handed_over = 0
        self.through = 0
        self._gathered: list[EndedCommand] = []
        self._writing: list[EndedCommand] = []
        self._work = anyio.Event()
        self._written = anyio.Event()
        # Outcomes that a task waits for, by id; False: this outcome was not written.
        self._watched: dict[int, bool] = {}

    @property
    def waiting(self) -> int:
        return self.handed_over - self.through

    @property
    def full(self) -> bool:
        return len(self._gathered) >= _MOST_GATHERED

    @property
    def ids(self) -> set[int]:
        """Ids of commands whose outcomes are not written yet, so that they are still leased."""
        return {ended.outcome.id for ended in (*self._gathered, *self._writing)}

    def hand_over(self, ended: EndedCommand) -> None:
        self._gathered.append(ended)
        self.handed_over += 1
        self._work.set()

    async def add(self, ended: EndedCommand) -> None:
        """Hand over an outcome; waits while too many are unwritten."""
        while self.full:
            await self._written.wait()
        self.hand_over(ended)

    async def see(self, ended: EndedCommand) -> bool:
        """Hand over an outcome and wait for its write; False: it was not written."""
        self._watched[ended.outcome.id] = True
        try:
            await self.add(ended)
            while any(each is ended for each in (*self._gathered, *self._writing)):
                await self._written.wait()
            return self._watched[ended.outcome.id]
        finally:
            del self._watched[ended.outcome.id]

    async def of_key(self, row: ClaimedCommand) -> None:
        """Wait for the earlier outcomes of a row's key."""
        while any(_same_key(ended.row, row) for ended in (*self._gathered, *self._writing)):
            await self._written.wait()

    async def flush(self) -> None:
        while self.waiting:
            await self._written.wait()

    # ------------------------------------------------------------------------------- the writer

    async def take(self) -> list[EndedCommand]:
        """All outcomes that were handed over, when there is one; call `taken` after their write."""
        await self._work.wait()
        self._work = anyio.Event()
        self._writing, self._gathered = self._gathered, []
        return self._writing

    def taken(self, written: int) -> None:
        self.through += written
        self._writing = []
        self._written.set()
        self._written = anyio.Event()

    def not_written(self, ids: Iterable[int]) -> None:
        self._watched.update((each, False) for each in ids if each in self._watched)


def _same_key(one: ClaimedCommand, other: ClaimedCommand) -> bool:
    return bool(one["ordering_key"] == other["ordering_key"] and one["queue"] == other["queue"])
