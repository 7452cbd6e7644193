"""Removes a partition: exports it if the settings want that, detaches it, drops it.

After each step, another worker can continue. Bodies that a living row needs (for example a dead
letter) are copied forward before the detaching, and searched for again before the drop, when no
session can reach the partition: if a body is needed even so, the partition is attached again.
Receipts whose events are not settled are copied to kept_receipts. Replays need no advisory lock:
the reference to a body changes under its row's lock, and one snapshot sees every row. Known limit:
until it is attached again, after a transaction that was open for days, such a body is not found.
"""

from collections.abc import Callable

from inboxd.maintenance.partitions.export import Exporter
from inboxd.store import partitions
from inboxd.store.partitions import BODIES, RECEIPTS, Partition
from inboxd.store.session import Session


class PartitionRemoval:
    def __init__(
        self,
        session: Session,
        exporter: Exporter | None,
        tell: Callable[..., object] = lambda _, **__: None,
    ) -> None:
        """exporter: None for no export; tell: logs each step."""
        self._tell = tell
        self._session = session
        self._exporter = exporter

    async def go(self, partition: Partition, *, stays: bool = False) -> bool:
        """True: it is gone. stays: only complete a detaching. Raises ExportError, PartitionBusy."""
        where = (self._session, partition)
        exported = partition.exported is not None
        if partition.state == "attached":
            if partition.parent == BODIES:
                if not await self._keep_bodies(partition):
                    return False
            elif partition.parent == RECEIPTS:
                await self._keep_receipts(partition)
            elif self._exporter is not None and not exported:
                rows = await self._exporter.export(*where)
                exported = True
                self._tell("exported a partition", partition=partition.part, rows=rows)
            # Not earlier: a person may detach, and so keep, a partition that cannot be exported.
            await partitions.retire(*where)
            await partitions.detach(*where)
        elif partition.state == "pending":
            await partitions.finalize(*where)
            if stays or not partition.retired:
                return False  # kept by the settings, or detached by a person
        return await self._drop(partition, exported=exported)

    async def _keep_bodies(self, partition: Partition) -> bool:
        """Copy needed bodies forward; False while a session works on a row that needs one."""
        if kept := await partitions.keep_bodies(self._session, partition):
            self._tell("copied bodies forward", partition=partition.part, rows=kept)
        return not await partitions.needed(self._session, partition)

    async def _keep_receipts(self, partition: Partition) -> None:
        kept = await partitions.keep_receipts(self._session, partition)
        if kept:
            self._tell("copied receipts", partition=partition.part, rows=kept)

    async def _drop(self, partition: Partition, *, exported: bool) -> bool:
        gone: bool | None = False
        if await self._may_go(partition, exported=exported):
            gone = await partitions.drop(self._session, partition)
        if gone:
            self._tell("dropped a partition", partition=partition.part)
        elif gone is False:
            await partitions.give_back(self._session, partition)
            self._tell("a partition is needed; it is attached again", partition=partition.part)
        return bool(gone)

    async def _may_go(self, partition: Partition, *, exported: bool) -> bool:
        if partition.parent == BODIES:
            return not await partitions.needed(self._session, partition)
        return exported or self._exporter is None or partition.parent == RECEIPTS
