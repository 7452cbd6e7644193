"""Which sources are spooled, on this host: seen by all its processes without the database.

Owns a mark and a gate for each source. Promises: a source is marked, on the disk, before the first
of its receipts is answered from a spool; while it is marked, every process of the host spools what
comes for it, so nothing overtakes; the mark goes while its gate is closed to all who append, and
after the last of it is in the database. A crash leaves too many marks, never too few.
Known limit: other hosts have spools of their own; order across receivers of several hosts is not
promised while one of them spools.
*See:* `writer.py`, which goes through the gates; `drain.py`, which closes them.
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
# Between two tries to close a gate, in seconds: it waits for appends, of milliseconds.
_PAUSE = 0.002


class Gates:
    """The marks and gates below one folder."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._folder = path / SOURCES
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sync(path)
        self._paths: dict[str, str] = {}
        # Marks that this process has synced, as they were then.
        self._synced: dict[str, tuple[int, int]] = {}

    def is_marked(self, source: str) -> bool:
        """Whether what comes for it is spooled."""
        path = self._paths.get(source)
        if path is None:
            path = self._paths[source] = str(self._mark(source))
        return os.path.exists(path)  # noqa: PTH110 - asked for each page

    def marked(self) -> list[str]:
        """All that are."""
        return marks(self._folder.parent)

    def mark(self, source: str) -> None:
        """Have it spooled from now on; within `opened`. Raises OSError.

        Another process may have made the mark, and not synced it yet.
        """
        path = self._mark(source)
        if not path.exists():
            path.touch(mode=0o600)
        found = path.stat()
        if self._synced.get(source) != (found.st_ino, found.st_mtime_ns):
            _sync(self._folder)
            self._synced[source] = (found.st_ino, found.st_mtime_ns)

    def unmark(self, source: str) -> None:
        """Let it go to the database from now on; within `closed`."""
        self._mark(source).unlink(missing_ok=True)

    @contextmanager
    def opened(self, sources: Iterable[str], within: float) -> Iterator[None]:
        """To append; waits while the drainer has one of them closed.

        Raises TimeoutError after so many seconds: the drainer may be a process that stands still.
        """
        with self._locked(sources, fcntl.LOCK_SH, within):
            yield

    @contextmanager
    def closed(self, sources: Iterable[str], within: float) -> Iterator[None]:
        """Nobody appends meanwhile. Raises TimeoutError after so many seconds."""
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
    """The marked sources of a host."""
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
                    raise TimeoutError(f"{path}: it is locked for too long") from None
                sleep(_PAUSE)
        yield
    finally:
        os.close(handle)
