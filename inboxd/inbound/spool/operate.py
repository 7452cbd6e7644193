"""An operator's actions on a spool: drains it now, inserts items that were set apart, discards.

Promises: discarded and inserted items are recorded in the audit before they are removed; a drain
when it ends. An insert that is repeated after a crash writes nothing twice: a receipt older than
the database's memory gets a new id, which is saved in its file before it is written. Known limit:
it must run as the receiver's user, on its host.
"""

import math
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio import to_thread

from inboxd.errors import Conflict, SpoolOwned, UsageError
from inboxd.inbound.spool.drain import Drain, DrainWays
from inboxd.inbound.spool.encoding import Order, encode
from inboxd.inbound.spool.erasures import without_erased
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import (
    DRAINER,
    OWNER,
    doubt,
    drain_lock,
    folders,
    lock_of,
    prepare,
)
from inboxd.inbound.spool.inspection import ApartItem, folder_named, item_named, waiting
from inboxd.inbound.spool.log import count_apart
from inboxd.inbound.spool.markers import Gates
from inboxd.inbound.spool.owner import holder
from inboxd.inbound.spool.trust import REMEDY
from inboxd.model.lineage import uuid7
from inboxd.model.receipt import Receipt
from inboxd.store import operations as audit
from inboxd.store import receipts
from inboxd.store.receipts import Stored
from inboxd.store.session import Session

# The database has partitions for receipts from one year before to one year after today.
_YEAR = timedelta(days=366)
# Seconds for recording a drain that ended with an error.
_RECORD_SECONDS = 5.0


class DrainedSpool(NamedTuple):
    """The result of a drain. ended: no receipts were left when it stopped."""

    drained: int
    set_apart: int
    ended: bool = True


class LostReceipts(NamedTuple):
    waiting: int
    set_apart: int


@dataclass(frozen=True, slots=True)
class SpoolOperator:
    path: Path
    session: Session
    actor: str
    reason: str | None
    remembers: timedelta | None

    def __post_init__(self) -> None:
        """Raises UsageError for a spool of another user, or that is not trusted."""
        owner = self.path.stat().st_uid if self.path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise UsageError(f"the spool belongs to user id {owner}: run the command as that user.")
        if problem := doubt(self.path):
            raise UsageError(f"{problem}: {REMEDY}.")
        prepare(self.path)

    async def drain(self, within: float = math.inf) -> DrainedSpool:
        """Raises Conflict if another process drains, DatabaseError if the database is away."""
        commit = partial(receipts.commit, self.session)
        drain = Drain(
            self.path,
            SystemFiles(),
            Gates(self.path),
            self._write(),
            ways=DrainWays(commit=commit),
            remembers=self.remembers,
        )
        before = await to_thread.run_sync(self._apart)
        try:
            with _naming_holder(self.path / DRAINER, "drains this spool already"):
                with anyio.move_on_after(within) as cut:
                    await drain.finish()
        except BaseException:
            # Record the drained receipts, unless the database is unreachable.
            if drain.drained:
                with anyio.move_on_after(_RECORD_SECONDS, shield=True), suppress(Exception):
                    await self._record_drain(drain)
            raise
        apart = await to_thread.run_sync(self._apart) - before
        if drain.drained or apart:
            await self._record_drain(drain)
        return DrainedSpool(drain.drained, apart, ended=not cut.cancelled_caught)

    async def _record_drain(self, drain: Drain) -> None:
        await self._record("drain", f"spool of {socket.gethostname()}", drain.drained)

    def _apart(self) -> int:
        return sum(count_apart(each, SystemFiles()) for each in folders(self.path))

    async def insert(self, name: str) -> Stored:
        """Raises NotFound, Conflict, or the database's error."""
        with _naming_holder(self.path / DRAINER, "drains this spool now: try again soon"):
            lock = drain_lock(self.path)
        try:
            item = await to_thread.run_sync(item_named, self.path, name)
            if item.receipt is None:
                raise Conflict(
                    f"{item.name} is not a receipt ({item.reason}): `inboxd spool show {item.name} "
                    "--raw` shows its bytes; discard it if you do not need them"
                )
            receipt = await to_thread.run_sync(self._remembered, item, item.receipt)
            [stored] = await self._write()([receipt])
            target = f"receipt {receipt.receipt_id} of {receipt.source}: {item.reason}"
            await self._record("drain", target, 1)
            await to_thread.run_sync(_remove, item)
            return stored
        finally:
            lock.release()

    async def discard(self, name: str) -> ApartItem:
        """Remove an item that was set apart. Raises NotFound, or Conflict during a drain."""
        with _naming_holder(self.path / DRAINER, "drains this spool now: try again soon"):
            lock = drain_lock(self.path)
        try:
            item = await to_thread.run_sync(item_named, self.path, name)
            what = item.name if item.receipt is None else f"receipt {item.receipt.receipt_id}"
            await self._record("discard", f"{what}, set apart in a spool: {item.reason}", 1)
            await to_thread.run_sync(_remove, item)
            return item
        finally:
            lock.release()

    async def discard_folder(self, name: str, seen: LostReceipts | None = None) -> LostReceipts:
        """seen: the folder stays if it has changed since. Raises NotFound, Conflict."""
        folder = folder_named(self.path, name)
        with _naming_holder(folder / OWNER, "is running and owns this folder: stop it first"):
            owner = lock_of(folder)
        try:
            with _naming_holder(self.path / DRAINER, "drains this spool now: try again soon"):
                drainer = drain_lock(self.path)
            try:
                lost = await to_thread.run_sync(_lost, folder)
                if seen is not None and lost != seen:
                    raise Conflict(
                        f"the folder has changed: {lost.waiting:,} receipts wait there now, and "
                        f"{lost.set_apart:,} are set apart; nothing was removed: look again"
                    )
                await self._record("discard", f"spool folder {folder.name}", lost.waiting)
                await to_thread.run_sync(shutil.rmtree, folder)
            finally:
                drainer.release()
        finally:
            owner.release()
        return lost

    def _write(self) -> Callable[[Sequence[Receipt]], Awaitable[Sequence[Stored]]]:
        session = self.session

        async def write(page: Sequence[Receipt]) -> Sequence[Stored]:
            return await receipts.write(session, page)

        async def ask(subjects: Sequence[str], since: datetime) -> dict[str, datetime]:
            return await receipts.erased(session, subjects, since)

        return without_erased(write, ask)

    def _remembered(self, item: ApartItem, receipt: Receipt) -> Receipt:
        """The receipt; with a new id if the database does not know its day, or cannot store it."""
        age = datetime.now(UTC) - _time_of(receipt)
        if -_YEAR < age < min(self.remembers or _YEAR, _YEAR):
            return receipt
        fresh = replace(receipt, receipt_id=uuid7())
        _, content = item.paths
        SystemFiles().replace(content, encode(Order(0, 0), fresh))
        return fresh

    async def _record(self, action: audit.Audited, target: str, count: int) -> None:
        async with self.session.transaction():
            await audit.record(self.session, self.actor, action, target, self.reason, count)


def _time_of(receipt: Receipt) -> datetime:
    """The time in the receipt's id, by which the database finds it."""
    return datetime.fromtimestamp((receipt.receipt_id.int >> 80) / 1000, UTC)


def _lost(folder: Path) -> LostReceipts:
    return LostReceipts(sum(1 for _ in waiting(folder)), count_apart(folder, SystemFiles()))


def _remove(item: ApartItem) -> None:
    files = SystemFiles()
    for path in item.paths:
        files.remove(path)
    files.sync_folder(item.paths[0].parent)


@contextmanager
def _naming_holder(lock: Path, what: str) -> Iterator[None]:
    try:
        yield
    except SpoolOwned as error:
        pid = holder(lock)
        who = "another process" if pid is None else f"process {pid}"
        raise Conflict(f"{who} {what}") from error
