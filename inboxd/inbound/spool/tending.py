"""What an operator does to a spool: drains it now, inserts what was set apart, discards.

Promises: one drain a host, whoever does it; what is discarded or inserted is in the audit before it
is removed, so where the database cannot record it, it stays. A drain is in the audit when it
ends, also when an error ends it, unless the database is away then. An insert that is repeated after
a crash doubles nothing: what is too old for the database's memory gets a new id, which is kept in
its file before it is written. Known limit: it must run as the receiver's user, on its host.
*See:* `drain.py`; `inspection.py`, which finds what to act on; `inboxd/daemon/hosted_spool.py`, by
which the screens do it.
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
from inboxd.inbound.spool.gates import Gates
from inboxd.inbound.spool.holder import holder
from inboxd.inbound.spool.inspection import ApartItem, folder_named, item_named, waiting
from inboxd.inbound.spool.log import count_apart
from inboxd.inbound.spool.trust import REMEDY
from inboxd.model.lineage import uuid7
from inboxd.model.receipt import Receipt
from inboxd.store import operations as audit
from inboxd.store import receipts
from inboxd.store.receipts import Stored
from inboxd.store.session import Session

# The database makes partitions for receipts of less than a year around today.
_YEAR = timedelta(days=366)
# Seconds to record a drain that was ended by an error.
_LAST_WORDS = 5.0


class DrainedSpool(NamedTuple):
    """What a drain did. ended: whether nothing was left when it stopped."""

    drained: int
    set_apart: int
    ended: bool = True


class LostReceipts(NamedTuple):
    """What goes with a folder: receipts that wait there, and what is set apart."""

    waiting: int
    set_apart: int


@dataclass(frozen=True, slots=True)
class Tending:
    """One host's spool, and the session of an operator."""

    path: Path
    session: Session
    actor: str
    reason: str | None
    remembers: timedelta | None

    def __post_init__(self) -> None:
        """Raises UsageError for a user whose files the receiver could not open.

        And for what others could have written, which is inserted for nobody.
        """
        owner = self.path.stat().st_uid if self.path.exists() else os.geteuid()
        if owner != os.geteuid():
            raise UsageError(
                f"the spool belongs to the user with the number {owner}: run it as that one."
            )
        if problem := doubt(self.path):
            raise UsageError(f"{problem}: {REMEDY}.")
        prepare(self.path)

    async def drain(self, within: float = math.inf) -> DrainedSpool:
        """Drain what there is, for so many seconds at most.

        Raises Conflict when another process drains, DatabaseError when the database is away.
        """
        commit = partial(receipts.commit, self.session.connection, self.session.sql)
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
            with _told(self.path / DRAINER, "drains this spool already"):
                with anyio.move_on_after(within) as cut:
                    await drain.finish()
        except BaseException:
            # Some was drained all the same. If the database is away, nobody can say so there.
            if drain.drained:
                with anyio.move_on_after(_LAST_WORDS, shield=True), suppress(Exception):
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
        """Write what was set apart.

        Raises NotFound, Conflict, or what the database has against it.
        """
        with _told(self.path / DRAINER, "drains this spool now: try again soon"):
            lock = drain_lock(self.path)
        try:
            item = await to_thread.run_sync(item_named, self.path, name)
            if item.receipt is None:
                raise Conflict(
                    f"{item.name} is no receipt ({item.reason}): `inboxd spool show {item.name} "
                    "--raw` has its bytes; discard it when they are of no use"
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
        """Remove what is set apart. Raises NotFound, or Conflict while somebody drains."""
        with _told(self.path / DRAINER, "drains this spool now: try again soon"):
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
        """Remove the folder of a process that is gone.

        seen: what was there when somebody looked; if that has changed it is left as it is. Raises
        NotFound, Conflict.
        """
        folder = folder_named(self.path, name)
        with _told(folder / OWNER, "lives, and owns this folder: end it first"):
            owner = lock_of(folder)
        try:
            with _told(self.path / DRAINER, "drains this spool now: try again soon"):
                drainer = drain_lock(self.path)
            try:
                lost = await to_thread.run_sync(_lost, folder)
                if seen is not None and lost != seen:
                    raise Conflict(
                        f"it has changed since: {lost.waiting:,} wait there now, and "
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
        connection, sql = self.session.connection, self.session.sql

        async def write(page: Sequence[Receipt]) -> Sequence[Stored]:
            return await receipts.write(connection, sql, page)

        async def ask(subjects: Sequence[str], since: datetime) -> dict[str, datetime]:
            return await receipts.erased(connection, sql, subjects, since)

        return without_erased(write, ask)

    def _remembered(self, item: ApartItem, receipt: Receipt) -> Receipt:
        """The receipt, under an id whose day the database has, or makes."""
        age = datetime.now(UTC) - _time_of(receipt)
        if -_YEAR < age < min(self.remembers or _YEAR, _YEAR):
            return receipt
        fresh = replace(receipt, receipt_id=uuid7())
        _, content = item.paths
        SystemFiles().replace(content, encode(Order(0, 0), fresh))
        return fresh

    async def _record(self, action: audit.Audited, target: str, count: int) -> None:
        async with self.session.connection.transaction():
            await audit.record(self.session, self.actor, action, target, self.reason, count)


def _time_of(receipt: Receipt) -> datetime:
    """The time in its id, by which the database finds it."""
    return datetime.fromtimestamp((receipt.receipt_id.int >> 80) / 1000, UTC)


def _lost(folder: Path) -> LostReceipts:
    return LostReceipts(sum(1 for _ in waiting(folder)), count_apart(folder, SystemFiles()))


def _remove(item: ApartItem) -> None:
    files = SystemFiles()
    for path in item.paths:
        files.remove(path)
    files.sync_folder(item.paths[0].parent)


@contextmanager
def _told(lock: Path, what: str) -> Iterator[None]:
    """Say which process has a lock."""
    try:
        yield
    except SpoolOwned as error:
        pid = holder(lock)
        who = "another process" if pid is None else f"process {pid}"
        raise Conflict(f"{who} {what}") from error
