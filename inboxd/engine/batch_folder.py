"""Folds batches: counts their ended commands, and releases rows that waited for a batch.

A batch is folded as soon as a settlement of its members has committed on this worker (promise 6).
One with many members left cannot have ended yet: it is folded only a few times a second. A sweep
finds batches that dead workers have not folded. Known limit: batches are folded one after the
other. *See:* `commands/settler.py`, before it; `store/batches.py`, after it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from time import monotonic

import anyio

from inboxd.model.outcome import explain
from inboxd.model.splitting import Pieces
from inboxd.store import batches
from inboxd.store.batches import Folded
from inboxd.store.connections import is_passing
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Batches folded in one transaction, which locks their rows until it commits.
_AT_ONCE = 20
# With at most this many members left, the next page of settlements may end the batch.
_FEW = 1_000
# Members per second, more than workers can settle: sets the pause between two folds of a large
# batch.
_MOST_PER_SECOND = 200_000
_LONGEST_PAUSE = 0.5
# Lock timeout of a fold. A batch that is locked, for example by a slow producer, is folded later,
# so that other batches do not wait for it.
_PATIENCE = "100ms"
# Seconds until a retry after an outage; and age in seconds at which a sweep folds what other
# workers have left unfolded.
_RETRY = 0.5
_LEFT_BEHIND = 2.0


class BatchFolder:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Earliest time of the next fold, by batch.
        self._noted: dict[int, float] = {}
        # No fold before this time, by batch.
        self._resting: dict[int, float] = {}
        # Look for batches that are not noted here, since the end of an awaited command may start
        # one.
        self._look = False
        self._work = asyncio.Event()
        self._under_way = 0
        # How many folds have ended.
        self.folded = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._noted or self._look or self._under_way)

    def look(self) -> None:
        """Search the database at once for batches to fold, also those of other workers."""
        self._look = True
        self._work.set()

    def on_settled(self, rows: Iterable[ClaimedCommand]) -> None:
        for row in rows:
            if row["batch_id"] is not None:
                self.note(row["batch_id"])
            if row["awaited"]:
                self._look = True
                self._work.set()

    def note(self, batch: int) -> None:
        if batch not in self._noted:
            self._noted[batch] = self._resting.get(batch, 0.0)
            self._work.set()

    async def run(self) -> None:
        while True:
            soonest = min(self._noted.values(), default=None)
            with anyio.move_on_after(None if soonest is None else soonest - monotonic()):
                await self._work.wait()
            self._work.clear()
            await self._turn(monotonic())

    async def finish(self) -> None:
        """Fold all noted batches at once, without pauses."""
        while self._noted or self._look or self._under_way:
            await self._turn(float("inf"))
            await anyio.sleep(0.01)  # after an outage the batches are noted again

    async def sweep(self) -> None:
        """Note the batches that no worker has folded: a maintenance task."""
        now = monotonic()
        self._resting = {batch: at for batch, at in self._resting.items() if at > now}
        await self._find(_LEFT_BEHIND)

    async def _find(self, seconds: float) -> None:
        async with borrow(self._pool) as session:
            found = await batches.unfolded(session, seconds)
        for batch in found:
            self.note(batch)

    async def _turn(self, now: float) -> None:
        ready = sorted(batch for batch, at in self._noted.items() if at <= now)
        starts = range(0, len(ready), _AT_ONCE)
        pieces: Pieces[Sequence[int]] = Pieces(*(ready[at : at + _AT_ONCE] for at in starts))
        for ids in pieces:
            try:
                await self._fold(ids)
            except Exception as error:  # noqa: BLE001 - tried again, or logged
                # A deadlock, or one batch that fails the transaction.
                if not pieces.separate(ids):
                    self._failed(ids[0], error)
        if self._look:
            self._look = False
            try:
                await self._find(0.0)
            except Exception as error:  # noqa: BLE001 - the sweep finds it
                OUTAGE.warn(_log.warning, "batches with ended members are not found", error)

    async def _fold(self, ids: Sequence[int]) -> None:
        for batch in ids:  # changes that are noted from here on need another fold
            self._noted.pop(batch, None)
        self._under_way += 1
        try:
            async with borrow(self._pool) as session:
                folded = await batches.fold(session, ids, _PATIENCE)
        finally:
            self._under_way -= 1
        self.folded += len(folded)
        for each in folded:
            self._follow(each)

    def _follow(self, folded: Folded) -> None:
        """Note the batches that this fold affects; pause a batch with many members left."""
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

    def _failed(self, batch: int, error: Exception) -> None:
        if is_passing(error):
            _log.info("ended members are counted later", batch=batch, reason=explain(error).error)
            self._noted.setdefault(batch, monotonic() + _RETRY)
        else:
            _log.error("ended members cannot be counted", batch=batch, reason=explain(error).error)
