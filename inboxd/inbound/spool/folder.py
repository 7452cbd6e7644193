"""Who owns which folder of the spool: one process each, by a lock that ends with the process.

Owns the layout below `inbound.spool.path`: a folder for each process that ever spooled, and the
lock of the drainer. Promises: a folder has one owner, held by `flock`, which a stopped process
keeps and a dead one does not; the folder of a process that is gone is taken over by the next one
that starts, and drained all the same if none does; of the processes on one host, one drains; what
others could have written is taken over by nobody (`trust.py`).
Known limit: the path must be on a local disk, whose locks all processes of the host share.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from time import monotonic, sleep
from uuid import uuid4

from inboxd.errors import SettingsError, SpoolOwned
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.log import APART, CURSOR, write_cursor
from inboxd.inbound.spool.trust import REMEDY, distrusted

OWNER = "owner"
# Of the marks and gates of sources (`gates.py`).
SOURCES = "sources"
_FOLDERS = "spools"
DRAINER = "drainer"
# Seconds for which somebody may only look whether a folder is owned.
_LOOK, _PAUSE = 0.05, 0.001
# More folders than processes of a host start at the same moment.
_NEW = 100


class Lock:
    """A lock on a file, until it is closed or the process ends."""

    def __init__(self, path: Path, within: float = 0.0) -> None:
        """Take it, within so many seconds. Raises SpoolOwned when somebody else has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(path, flags, 0o600)
        until = monotonic() + within
        while True:
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if monotonic() >= until:
                    os.close(self._handle)
                    raise SpoolOwned(f"{path.parent}: another process has its lock") from error
                sleep(_PAUSE)
            else:
                return

    def release(self) -> None:
        """Give it back."""
        os.close(self._handle)


class Owned:
    """A folder of this process's own."""

    def __init__(self, folder: Path, lock: Lock) -> None:
        """Made by `own`."""
        self.folder = folder
        self._lock = lock

    def release(self) -> None:
        """Leave it to a successor."""
        self._lock.release()


def own(path: Path) -> Owned:
    """The folder of a process that is gone, else a new one. Raises SettingsError."""
    try:
        if problem := doubt(path):
            raise SettingsError(f"inbound.spool.path: {problem}: {REMEDY}")
        prepare(path)
        return _take(path)
    except (OSError, SpoolOwned) as error:
        raise SettingsError(
            f"inbound.spool.path {str(path)!r} cannot be used: {error}; give a folder on a local "
            "disk that has room, and that the receiver's user may write to"
        ) from error


def doubt(path: Path) -> str | None:
    """Why what is there is not believed; None: it is, or nothing is there. Raises OSError."""
    return distrusted(path, below=(_FOLDERS, SOURCES))


def doubt_of_its_user(path: Path) -> str | None:
    """The same for whom its folders belong to, whoever asks. Raises OSError."""
    top = path / _FOLDERS
    return distrusted(path, top.lstat(), (_FOLDERS, SOURCES)) if top.exists() else None


def _take(path: Path) -> Owned:
    """The first folder that is nobody's. Raises OSError, SpoolOwned."""
    for folder in chain(folders(path), _new_folders(path)):
        with suppress(SpoolOwned):
            return _owned(folder, Lock(folder / OWNER, _LOOK))
    raise SpoolOwned(f"{path}: other processes have taken {_NEW} new folders of this one")


def _new_folders(path: Path) -> Iterator[Path]:
    """Folders that nobody had; a process that starts at the same moment may be quicker."""
    for _ in range(_NEW):
        folder = path / _FOLDERS / uuid4().hex
        folder.mkdir(mode=0o700)
        yield folder


def prepare(path: Path) -> None:
    """Make what is missing below the path. Raises OSError."""
    _prepare(path / _FOLDERS)


def _prepare(path: Path) -> None:
    """Make a folder and all above it, so that their names outlast a crash."""
    if not path.is_dir():
        _prepare(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    if os.access(path.parent, os.R_OK):
        SystemFiles().sync_folder(path.parent)


def _owned(folder: Path, lock: Lock) -> Owned:
    """Make what a folder has; a process may have died while it made it."""
    files = SystemFiles()
    (folder / APART).mkdir(exist_ok=True, mode=0o700)
    if not (folder / CURSOR).exists():
        write_cursor(folder, files, 0)
    files.sync_folder(folder)
    files.sync_folder(folder.parent)
    return Owned(folder, lock)


def lock_of(folder: Path) -> Lock:
    """The lock of a folder's owner. Raises SpoolOwned."""
    return Lock(folder / OWNER)


def drain_lock(path: Path) -> Lock:
    """The right to drain all folders of this host. Raises SpoolOwned."""
    return Lock(path / DRAINER)


def folders(path: Path) -> list[Path]:
    """The folders of all processes, in order."""
    top = path / _FOLDERS
    return sorted(each for each in top.iterdir() if each.is_dir()) if top.is_dir() else []


def is_owned(folder: Path) -> bool:
    """Whether a process owns it now; by a look, not by waiting."""
    try:
        lock_of(folder).release()
    except SpoolOwned:
        return True
    return False


def living(path: Path) -> Iterator[Path]:
    """The folders that a process owns now."""
    return (folder for folder in folders(path) if is_owned(folder))
