"""Folds: after commands of a batch have ended, count them, and release rows that waited for it.

Owns when this worker folds which batch. Promises (promise 6) that a batch is folded as soon as the
settlement of a member that ended here has committed, one fold of a batch at a time, and that
members which end during a fold are folded after it; a batch that cannot have ended yet, as it has
many members left, is folded a few times a second, so that a large batch costs its commands next to
nothing. A sweep finds batches that dead workers have left unfolded.
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

# Batches folded in one transaction, which locks their rows until it commits.
_AT_ONCE = 20
# With this many members left or fewer, the next page of settlements may be the last.
_FEW = 1_000
# Members; faster than workers settle: a batch with more left cannot end before its next fold.
_MOST_PER_SECOND = 200_000
_LONGEST_PAUSE = 0.5
# How long a fold waits for a locked batch, for example of a producer that is slow to commit; it is
# folded later, and others do not wait for it.
_PATIENCE = "100ms"
# Seconds: after an outage; and for other workers to fold what they have settled, before a sweep.
_RETRY = 0.5
_LEFT_BEHIND = 2.0


class BatchFolder:
    """This worker's folds; `run` in the task group of the incarnation."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        self._pool = pool
        self._sql = sql
        # Batches to fold, and when each may be folded.
        self._noted: dict[int, float] = {}
        # Until when folded batches rest.
        self._resting: dict[int, float] = {}
        # A command that others wait for has ended: a batch that was not noted here may have to
        # start.
        self._look = False
        self._work = asyncio.Event()
        self._under_way = 0
        # How many folds have ended.
        self.folded = 0

    @property
    def is_busy(self) -> bool:
        """Whether there are batches to fold, or to look for."""
        return bool(self._noted or self._look or self._under_way)

    def look(self) -> None:
        """Fold at once also batches that other workers have left."""
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
        """Note that a batch has changed, and that this has committed."""
        if batch not in self._noted:
            self._noted[batch] = self._resting.get(batch, 0.0)
            self._work.set()

    async def run(self) -> None:
        """Fold noted batches, until cancelled."""
        while True:
            soonest = min(self._noted.values(), default=None)
            with anyio.move_on_after(None if soonest is None else soonest - monotonic()):
                await self._work.wait()
            self._work.clear()
            await self._turn(monotonic())

    async def finish(self) -> None:
        """Fold all noted batches, resting or not."""
        while self._noted or self._look or self._under_way:
            await self._turn(float("inf"))
            await anyio.sleep(0.01)  # in an outage all of them are noted again

    async def sweep(self) -> None:
        """Note batches that were left behind: a maintenance task."""
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
                OUTAGE.warn(_log.warning, "batches to fold are looked for later", error)

    async def _fold(self, ids: Sequence[int]) -> None:
        for batch in ids:  # the fold may miss changes that are noted from here on
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
        """Note what follows from a fold; let a batch rest that has many members left."""
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
        if len(ids) > 1:  # a deadlock, or one batch spoils the transaction
            for batch in ids:
                await self._fold([batch])
            return
        if is_passing(error):
            _log.info("a fold is tried again", batch=ids[0], reason=explain(error).error)
            self._noted.setdefault(ids[0], monotonic() + _RETRY)
        else:
            _log.error("a batch cannot be folded", batch=ids[0], reason=explain(error).error)
