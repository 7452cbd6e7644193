"""Folds: after commands of a batch have ended, count them, and release what waited for the batch.

Owns when which batch is folded by this worker. Promises (promise 6) that what ended here is folded
as soon as its settlement has committed, one fold of a batch at a time, and that what ended while a
fold was under way is folded after it; a batch that cannot have ended yet, having many members left,
is folded a few times a second, so that a large batch costs its commands next to nothing. A sweep
finds what workers that died have left to fold.
Known limit: batches are folded one after the other, a few in one transaction.
*See:* `commands/settler.py`, before it; `store/batches.py`, after it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic

import anyio

from inboxd.model.outcome import explain
from inboxd.store import batches
from inboxd.store.batches import Folded
from inboxd.store.connections import is_passing
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Folded in one transaction, which holds their rows until it commits.
_AT_ONCE = 20
# With so few members left, the next page of settlements may be the last.
_FEW = 1_000
# Faster than workers settle: a batch with more members left cannot end before it is folded again.
_MOST_PER_SECOND = 200_000
_LONGEST_PAUSE = 0.5
# A batch whose row somebody keeps locked, such as a producer that is slow to commit its close,
# waits its turn, and the others do not wait for it.
_PATIENCE = "100ms"
# Seconds after an outage, and those that others have to fold what they have settled.
_RETRY = 0.5
_LEFT_BEHIND = 2.0


class BatchFolder:
    """This worker's folds; `run` in the task group of the incarnation."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        """Fold on connections of `pool`."""
        self._pool = pool
        self._sql = sql
        # Batches to fold, and from when on each may be.
        self._noted: dict[int, float] = {}
        # Until when batches that were folded rest.
        self._resting: dict[int, float] = {}
        # Something ended that others wait for: a batch that nobody here noted may have to start.
        self._look = False
        self._work = asyncio.Event()
        self._under_way = 0
        # How many folds have ended.
        self.folded = 0

    @property
    def is_busy(self) -> bool:
        """Whether there is something to fold, or to look for."""
        return bool(self._noted or self._look or self._under_way)

    def look(self) -> None:
        """Fold at once what others have left to fold, too."""
        self._look = True
        self._work.set()

    def on_settled(self, rows: Iterable[ClaimedCommand]) -> None:
        """Commands have ended, and that has committed."""
        for row in rows:
            if row["batch_id"] is not None:
                self.note(row["batch_id"])
            if row["awaited"]:
                self._look = True
                self._work.set()

    def note(self, batch: int) -> None:
        """Something happened to a batch, and has committed."""
        if batch not in self._noted:
            self._noted[batch] = self._resting.get(batch, 0.0)
            self._work.set()

    async def run(self) -> None:
        """Fold what is noted, until cancelled."""
        while True:
            soonest = min(self._noted.values(), default=None)
            with anyio.move_on_after(None if soonest is None else soonest - monotonic()):
                await self._work.wait()
            self._work.clear()
            await self._turn(monotonic())

    async def finish(self) -> None:
        """Fold all that is noted, resting or not."""
        while self._noted or self._look or self._under_way:
            await self._turn(float("inf"))
            await anyio.sleep(0.01)  # in an outage all of it is noted again

    async def sweep(self) -> None:
        """Note what was left behind: a maintenance task."""
        now = monotonic()
        self._resting = {batch: at for batch, at in self._resting.items() if at > now}
        await self._find(_LEFT_BEHIND)

    async def _find(self, seconds: float) -> None:
        async with borrow(self._pool) as connection:
            found = await batches.unfolded(connection, self._sql, seconds)
        for batch in found:
            self.note(batch)

    async def _turn(self, now: float) -> None:
        ready = sorted(batch for batch, at in self._noted.items() if at <= now)
        for start in range(0, len(ready), _AT_ONCE):
            await self._fold(ready[start : start + _AT_ONCE])
        if self._look:
            self._look = False
            try:
                await self._find(0.0)
            except Exception as error:  # noqa: BLE001 - the sweep finds it
                OUTAGE.warn(_log.warning, "batches are looked for later", error)

    async def _fold(self, ids: Sequence[int]) -> None:
        for batch in ids:  # what is noted from here on may be missed by the fold
            self._noted.pop(batch, None)
        self._under_way += 1
        try:
            async with borrow(self._pool) as connection:
                folded = await batches.fold(connection, self._sql, ids, _PATIENCE)
        except Exception as error:  # noqa: BLE001 - tried again, or logged
            await self._failed(ids, error)
            return
        finally:
            self._under_way -= 1
        self.folded += len(folded)
        for each in folded:
            self._follow(each)

    def _follow(self, folded: Folded) -> None:
        """Note what comes after a fold, and let a batch rest that has a long way to go."""
        if folded.unsettled > _FEW and not folded.more:
            pause = min(folded.unsettled / _MOST_PER_SECOND, _LONGEST_PAUSE)
            self._resting[folded.id] = monotonic() + pause
        else:
            self._resting.pop(folded.id, None)
        if folded.more:
            self.note(folded.id)
        if folded.parent is not None:
            self.note(folded.parent)
        if folded.status in ("succeeded", "failed", "cancelled"):
            self._look = True
            self._work.set()

    async def _failed(self, ids: Sequence[int], error: Exception) -> None:
        if len(ids) > 1:  # a deadlock, or one that spoils it for the others
            for batch in ids:
                await self._fold([batch])
            return
        if is_passing(error):
            _log.info("a fold is tried again", batch=ids[0], reason=explain(error).error)
            self._noted.setdefault(ids[0], monotonic() + _RETRY)
        else:
            _log.error("a batch cannot be folded", batch=ids[0], reason=explain(error).error)
