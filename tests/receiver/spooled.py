"""Shared by tests of the spool: a provider that is never refused, and the state of the disk.

async with unrefused(receiver, inbox, spool) as provider:
    with durable_server.outage():
        await spooled(spool)
        await provider.goes_on(50)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import folders
from inboxd.inbound.spool.log import count_apart
from tests.support import Database, eventually
from tests.support.received import verify
from tests.support.receiver import Receiver
from tests.support.sender import Provider
from tests.support.waiting import WITHIN


def marks(path: Path) -> list[str]:
    """The marks of spooled sources."""
    return sorted(each.name for each in (path / "sources").glob("*.spooled"))


def apart(path: Path) -> int:
    """The number of frames that are set apart."""
    return sum(count_apart(folder, SystemFiles()) for folder in folders(path))


async def spooled(path: Path, within: float = WITHIN) -> None:
    """Wait until a source is spooled."""

    async def is_spooled() -> bool:
        return bool(marks(path))

    await eventually(is_spooled, within)


async def drained(path: Path, within: float = WITHIN) -> None:
    """Wait until all sources are drained."""

    async def is_drained() -> bool:
        return not marks(path)

    await eventually(is_drained, within)


@asynccontextmanager
async def unrefused(
    receiver: Receiver, inbox: Database, path: Path, *, lost: bool = False
) -> AsyncIterator[Provider]:
    """A provider that sends before, during and after; all is accepted, and stored at the end.

    lost: connections may be lost.
    """
    provider = receiver.provider(again=lost)
    async with provider.load(pause=0.002):
        await provider.goes_on()
        yield provider
        await provider.goes_on()
    await drained(path)
    assert not provider.refusals, provider.refusals[:3]
    if not lost:
        receiver.holds()
        assert provider.accepted == len(provider.ledger)
    await inbox.end_sessions()
    await verify(inbox, provider)
    assert apart(path) == 0
