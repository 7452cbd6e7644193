"""Marks of the sources that this host spools; all its processes see the marks without the database.

Promises: the mark of a source is on the disk before a request is answered from a spool; while the
mark exists, each process of the host spools the source's receipts, so that they keep their order;
it is removed while the gate is closed to appends, after the source's last receipt is in the
database. A crash may leave too many marks, never too few. Known limit: the order across receivers
of several hosts is not promised.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote, unquote

from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import SOURCES

_sync = SystemFiles().sync_folder
_MARK = ".spooled"
_GATE = ".gate"
# Seconds between two attempts to close a gate: appends, which hold it, take milliseconds.
_PAUSE_SECONDS = 0.002


class Gates:
    def __init__(self, path: Path) -> None:
        """Creates the folder of marks. Raises OSError."""
        self._folder = path / SOURCES
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sync(path)
        self._paths: dict[str, str] = {}
        # Marks that this process has synced: their inode and modification time.
        self._synced: dict[str, tuple[int, int]] = {}

    def is_marked(self, source: str) -> bool:
        path = self._paths.get(source)
        if path is None:
            path = self._paths[source] = str(self._mark(source))
        return os.path.exists(path)  # noqa: PTH110 - asked for each page

    def marked(self) -> list[str]:
        return marks(self._folder.parent)

    def mark(self, source: str) -> None:
        """Call it within `opened`. Also syncs a mark that another process has not synced yet."""
        path = self._mark(source)
        if not path.exists():
            path.touch(mode=0o600)
        found = path.stat()
        if self._synced.get(source) != (found.st_ino, found.st_mtime_ns):
            _sync(self._folder)
            self._synced[source] = (found.st_ino, found.st_mtime_ns)

    def unmark(self, source: str) -> None:
        """Send a source's receipts to the database again; call it within `closed`."""
        self._mark(source).unlink(missing_ok=True)

    @contextmanager
    def opened(self, sources: Iterable[str], within: float) -> Iterator[None]:
        """Raises TimeoutError after `within` seconds: the drainer may be a frozen process."""
        with self._locked(sources, fcntl.LOCK_SH, within):
            yield

    @contextmanager
    def closed(self, sources: Iterable[str], within: float) -> Iterator[None]:
        """Keep all processes from appending. Raises TimeoutError after `within` seconds."""
        with self._locked(sources, fcntl.LOCK_EX, within):
            yield

    @contextmanager
    def _locked(self, sources: Iterable[str], mode: int, within: float) -> Iterator[None]:
        until = monotonic() + within
        with ExitStack() as stack:
            for source in sorted(set(sources)):
                stack.enter_context(_flock(self._gate(source), mode, until))
            yield

    def _mark(self, source: str) -> Path:
        return self._folder / f"{quote(source, safe='')}{_MARK}"

    def _gate(self, source: str) -> Path:
        return self._folder / f"{quote(source, safe='')}{_GATE}"


def marks(path: Path) -> list[str]:
    names = (each.name for each in (path / SOURCES).glob(f"*{_MARK}"))
    return sorted(unquote(name.removesuffix(_MARK)) for name in names)


@contextmanager
def _flock(path: Path, mode: int, until: float) -> Iterator[None]:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, mode | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > until:
                    raise TimeoutError(f"{path}: its lock is held for too long") from None
                sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)
