"""The spool of this host for the screens: the actions of `inboxd spool`, in threads.

Reading is bounded: waiting receipts of a folder above `MOST_BYTES` are not read, and at most
`MOST_APART` receipts set apart. Known limit: it exists only if the same process receives. *See:*
`inboxd/inbound/spool/operate.py`; `inboxd/admin/screens/host_spool.py`.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from anyio import to_thread

from inboxd.inbound.spool.folder import folders
from inboxd.inbound.spool.inspection import (
    ApartItem,
    folder_named,
    item_named,
    set_apart,
    spooled_sources,
    view,
    views,
)
from inboxd.inbound.spool.operate import DrainedSpool, LostReceipts, SpoolOperator
from inboxd.settings import Settings
from inboxd.store.session import Session

# Maximum bytes of a folder that are read, in some hundredths of a second; maximum number of listed
# receipts.
MOST_BYTES: Final = 64 << 20
MOST_FOLDERS: Final = 50
MOST_APART: Final = 50


def hosted_spool(settings: Settings) -> "HostedSpool | None":
    path = settings.inbound.spool.path
    return None if path is None else HostedSpool(path, settings.history.receipts)


class HostedSpool:
    def __init__(self, path: Path, remembers: timedelta | None, host: str | None = None) -> None:
        """remembers: how long the database remembers a receipt. host: None: this host's name."""
        self._path, self._remembers = path, remembers
        self.host = host or socket.gethostname()

    async def listed(self) -> Mapping[str, Any]:
        return await to_thread.run_sync(self._listed)

    async def apart(self, name: str) -> Mapping[str, Any]:
        """A receipt that is set apart. Raises NotFound, Conflict."""
        return _described(await to_thread.run_sync(item_named, self._path, name))

    async def folder(self, name: str) -> Mapping[str, Any]:
        """A folder, by its name. Raises NotFound, Conflict."""
        return await to_thread.run_sync(self._folder, name)

    async def drain(
        self, session: Session, within: float, *, actor: str, reason: str | None
    ) -> DrainedSpool:
        """Drain it, for at most `within` seconds."""
        return await (await self._operator(session, actor, reason)).drain(within)

    async def insert(self, session: Session, name: str, *, actor: str, reason: str | None) -> str:
        stored = await (await self._operator(session, actor, reason)).insert(name)
        return stored.outcome

    async def discard(self, session: Session, name: str, *, actor: str, reason: str | None) -> None:
        await (await self._operator(session, actor, reason)).discard(name)

    async def discard_folder(
        self, session: Session, name: str, seen: tuple[int, int], *, actor: str, reason: str | None
    ) -> int:
        """The folder must not have changed since it was read. Returns the receipts in it."""
        operator = await self._operator(session, actor, reason)
        lost = await operator.discard_folder(name, LostReceipts(*seen))
        return lost.waiting

    async def _operator(self, session: Session, actor: str, reason: str | None) -> SpoolOperator:
        make = partial(SpoolOperator, self._path, session, actor, reason, self._remembers)
        return await to_thread.run_sync(make)

    def _listed(self) -> dict[str, Any]:
        found = views(self._path, MOST_BYTES, MOST_FOLDERS)
        some = islice(_all_apart(self._path), MOST_APART)
        return {
            "host": self.host,
            "sources": spooled_sources(self._path),
            "folders": [each._asdict() for each in found],
            "set_apart": [_described(each) for each in some],
        }

    def _folder(self, name: str) -> dict[str, Any]:
        return view(folder_named(self._path, name), MOST_BYTES)._asdict()


def _all_apart(path: Path) -> Iterator[ApartItem]:
    with suppress(FileNotFoundError):  # another process has inserted or discarded it
        yield from chain.from_iterable(set_apart(folder) for folder in folders(path))


def _described(item: ApartItem) -> dict[str, Any]:
    """Description of a receipt without its contents."""
    receipt = item.receipt
    return {
        "name": item.name,
        "reason": item.reason,
        "receipt_id": receipt and receipt.receipt_id,
        "source": receipt and receipt.source,
        "received_at": receipt and receipt.received_at,
        "bytes": item.bytes,
        "folder": item.folder.name,
    }
