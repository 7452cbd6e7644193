"""Ownership of spool folders: each has one process, by a lock that ends with the process.

Promises: a stopped process keeps the lock (`flock`), a dead process loses it; the next process that
starts takes over its folder, and until then the folder is drained, too; one process of a host
drains at a time; a folder to which other users could have written is never taken over. Known limit:
the path must be on a local disk, whose locks all processes of the host share.
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
# The folder of marks and gates of sources (`markers.py`).
SOURCES = "sources"
_FOLDERS = "spools"
DRAINER = "drainer"
# Seconds to wait for a lock that another process may hold briefly to check the owner; and between
# tries.
_LOOK_SECONDS, _PAUSE_SECONDS = 0.05, 0.001
# More folders than the processes of a host that start at the same moment.
_MOST_NEW_FOLDERS = 100


class Lock:
    """A lock on a file, held until `release` or the end of the process."""

    def __init__(self, path: Path, within: float = 0.0) -> None:
        """Take it within `within` seconds. Raises SpoolOwned if another process holds it."""
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
                sleep(_PAUSE_SECONDS)
            else:
                return

    def release(self) -> None:
        os.close(self._handle)


class Owned:
    def __init__(self, folder: Path, lock: Lock) -> None:
        self.folder = folder
        self._lock = lock

    def release(self) -> None:
        self._lock.release()


def own(path: Path) -> Owned:
    """Own the folder of a process that is gone, or a new one. Raises SettingsError."""
    try:
        if problem := doubt(path):
            raise SettingsError(f"inbound.spool.path: {problem}: {REMEDY}")
        prepare(path)
        return _take(path)
    except (OSError, SpoolOwned) as error:
        raise SettingsError(
            f"inbound.spool.path {str(path)!r} cannot be used: {error}; set it to a folder on "
            "a local disk with room, to which the receiver's user may write"
        ) from error


def doubt(path: Path) -> str | None:
    """Why the folders may contain forged webhooks; None: they cannot. Raises OSError."""
    return distrusted(path, below=(_FOLDERS, SOURCES))


def doubt_of_its_user(path: Path) -> str | None:
    """Like `doubt`, for the user who owns the folders. Raises OSError."""
    top = path / _FOLDERS
    return distrusted(path, top.lstat(), (_FOLDERS, SOURCES)) if top.exists() else None


def _take(path: Path) -> Owned:
    """The first folder without an owner. Raises OSError, SpoolOwned."""
    for folder in chain(folders(path), _new_folders(path)):
        with suppress(SpoolOwned):
            return _owned(folder, Lock(folder / OWNER, _LOOK_SECONDS))
    raise SpoolOwned(
        f"{path}: other processes took {_MOST_NEW_FOLDERS} new folders before this one"
    )


def _new_folders(path: Path) -> Iterator[Path]:
    """New folders; a process that starts at the same moment may lock one first."""
    for _ in range(_MOST_NEW_FOLDERS):
        folder = path / _FOLDERS / uuid4().hex
        folder.mkdir(mode=0o700)
        yield folder


def prepare(path: Path) -> None:
    _prepare(path / _FOLDERS)


def _prepare(path: Path) -> None:
    """Create a folder and its parents, and sync their names."""
    if not path.is_dir():
        _prepare(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    if os.access(path.parent, os.R_OK):
        SystemFiles().sync_folder(path.parent)


def _owned(folder: Path, lock: Lock) -> Owned:
    """Complete a folder: a process may have died while it created the contents."""
    files = SystemFiles()
    (folder / APART).mkdir(exist_ok=True, mode=0o700)
    if not (folder / CURSOR).exists():
        write_cursor(folder, files, 0)
    files.sync_folder(folder)
    files.sync_folder(folder.parent)
    return Owned(folder, lock)


def lock_of(folder: Path) -> Lock:
    return Lock(folder / OWNER)


def drain_lock(path: Path) -> Lock:
    return Lock(path / DRAINER)


def folders(path: Path) -> list[Path]:
    """The folders of all processes, sorted by name."""
    top = path / _FOLDERS
    return sorted(each for each in top.iterdir() if each.is_dir()) if top.is_dir() else []


def is_owned(folder: Path) -> bool:
    """Whether a process owns the folder now; does not wait."""
    try:
        lock_of(folder).release()
    except SpoolOwned:
        return True
    return False


def living(path: Path) -> Iterator[Path]:
    return (folder for folder in folders(path) if is_owned(folder))
