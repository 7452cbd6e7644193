"""The spool of one process; receipts that are left at its end are drained by a later process."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import time
from typing import NamedTuple

import anyio
from anyio import to_thread

from inboxd.errors import SpoolBroken
from inboxd.inbound.commits import Commit
from inboxd.inbound.group_commit import Write
from inboxd.inbound.spool.drain import Drain, DrainWays
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import Owned, folders, own
from inboxd.inbound.spool.log import Appender, count_apart, read_cursor, size_of
from inboxd.inbound.spool.writer import Probe, SpoolingWriter
from inboxd.model.outcome import explain
from inboxd.settings import InboundSpool
from inboxd.store.receivers import SpoolSight
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_LOOK_SECONDS = 1.0  # seconds between two looks at the folder
# Shares of `after`: for a page before any request waits for it, and for a page under closed gates.
_DIRECT_SHARE, _LAST_SHARE = 0.9, 0.5
_SHORTEST_PAGE_SECONDS = 2.0  # minimum seconds for a page of the drain


class DrainWrites(NamedTuple):
    """page, commit: make functions that end within given seconds. alone: for one slow receipt."""

    page: Callable[[float], Write]
    alone: Write | None = None
    commit: Callable[[float], Commit] | None = None


class SpoolState(NamedTuple):
    """Fill level of this process's folder. oldest: start of the oldest wait, in unix seconds."""

    waiting: int = 0
    bytes: int = 0
    oldest: float | None = None
    apart: int = 0
    trouble: SpoolBroken | None = None
    quota: int = 0


class Spool:
    def __init__(
        self,
        settings: InboundSpool,
        path: Path,
        owned: Owned,
        writes: Callable[[float], Write],
        probe: Probe,
        remembers: timedelta | None,
        drained: DrainWrites,
    ) -> None:
        self._files = SystemFiles()
        self._path = path
        self._folder = owned.folder
        self._log = Appender(
            owned.folder, self._files, quota=settings.quota, segment_bytes=settings.segment_size
        )
        after = settings.after.total_seconds()
        direct, patience = writes(_DIRECT_SHARE * after), max(_SHORTEST_PAGE_SECONDS, after)
        commit = None if drained.commit is None else drained.commit(patience)
        self.writer = SpoolingWriter(direct, probe, self._log, path, after=after)
        self.drain = Drain(
            path,
            self._files,
            self.writer.gates,
            drained.page(patience),
            ways=DrainWays(drained.page(_LAST_SHARE * after), drained.alone, commit),
            remembers=remembers,
            is_away=lambda: self.writer.is_away,
            after=after,
        )
        self.state = SpoolState(quota=settings.quota)
        # Numbers of frames, and the approximate time at which each began to wait.
        self._since: deque[tuple[int, float]] = deque()

    @property
    def sources(self) -> list[str]:
        return self.writer.gates.marked()

    def sight(self) -> SpoolSight:
        trouble = self.state.trouble
        return SpoolSight(self.sources, None if trouble is None else str(trouble))

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.writer.watch)
            group.start_soon(self.drain.run)
            while True:
                try:
                    await self.writer.leave_drained()
                    await to_thread.run_sync(self._look)
                except OSError as error:
                    _log.warning("the spool cannot be read", reason=explain(error).error)
                await anyio.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        cursor = read_cursor(self._folder, self._files)
        last = self._log.next_number - 1
        if last > (self._since[-1][0] if self._since else cursor):
            self._since.append((last, time()))
        while self._since and self._since[0][0] <= cursor:
            self._since.popleft()
        size = size_of(self._folder, self._files)
        oldest = self._since[0][1] if self._since else None
        apart = sum(count_apart(each, self._files) for each in folders(self._path))
        waiting = max(0, last - cursor)
        self.state = SpoolState(waiting, size, oldest, apart, self._log.broken, self.state.quota)


@contextmanager
def spooling(
    settings: InboundSpool,
    path: Path,
    writes: Callable[[float], Write],
    probe: Probe,
    remembers: timedelta | None,
    drained: DrainWrites | None = None,
) -> Iterator[Spool]:
    """remembers: how long the database knows a receipt; None: for ever. Raises SettingsError."""
    owned = own(path)
    try:
        drained = drained or DrainWrites(writes)
        yield Spool(settings, path, owned, writes, probe, remembers, drained)
    finally:
        owned.release()
