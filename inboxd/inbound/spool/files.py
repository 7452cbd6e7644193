"""What the spool does with files: each step by itself, so that tests can fail and forget them.

Owns the calls of the operating system. Promises: what `sync` and `sync_folder` have returned from
is on the disk, as far as the disk tells the truth; a write is whole or raises; a symbolic link is
followed by nothing. See: `log.py`, which has the order of these steps.
"""

import os
from pathlib import Path
from typing import BinaryIO, Protocol

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW


class Files(Protocol):
    """The steps; each raises OSError."""

    def create(self, path: Path) -> int:
        """A new file, open for appending; its name is on the disk after `sync_folder`."""
        ...

    def append_to(self, path: Path) -> int:
        """A file that is there, open for appending."""
        ...

    def write(self, handle: int, data: bytes) -> None:
        """Append all of it."""
        ...

    def sync(self, handle: int) -> None:
        """Have what was written to it on the disk."""
        ...

    def cut(self, handle: int, size: int) -> None:
        """Make it end there."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Have the names in a folder on the disk."""
        ...

    def replace(self, path: Path, data: bytes) -> None:
        """Make a small file hold this, or what it held before; on the disk when it returns."""
        ...

    def overwrite(self, path: Path, data: bytes) -> None:
        """Make a small file of the same length hold this; half of it, if that is interrupted."""
        ...

    def remove(self, path: Path) -> None:
        """Take a file away."""
        ...

    def read(self, path: Path) -> BinaryIO:
        """Open a file for reading."""
        ...

    def size(self, path: Path) -> int:
        """Its length in bytes."""
        ...

    def names(self, folder: Path) -> list[str]:
        """What is in a folder, in order."""
        ...


class SystemFiles:
    """The real ones."""

    def create(self, path: Path) -> int:
        """As the protocol says."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _ALWAYS
        return os.open(path, flags, 0o600)

    def append_to(self, path: Path) -> int:
        """As the protocol says."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | _ALWAYS)

    def write(self, handle: int, data: bytes) -> None:
        """As the protocol says."""
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]

    def sync(self, handle: int) -> None:
        """As the protocol says: the data, and what is needed to read it, such as the length."""
        os.fdatasync(handle)

    def cut(self, handle: int, size: int) -> None:
        """As the protocol says."""
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        """As the protocol says."""
        os.close(handle)

    def sync_folder(self, folder: Path) -> None:
        """As the protocol says."""
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, path: Path, data: bytes) -> None:
        """As the protocol says."""
        fresh = path.with_name(f"{path.name}.new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _ALWAYS, 0o600)
        try:
            self.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        fresh.replace(path)
        self.sync_folder(path.parent)

    def overwrite(self, path: Path, data: bytes) -> None:
        """As the protocol says."""
        handle = os.open(path, os.O_WRONLY | _ALWAYS)
        try:
            self.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        """As the protocol says."""
        path.unlink()

    def read(self, path: Path) -> BinaryIO:
        """As the protocol says."""
        return os.fdopen(os.open(path, os.O_RDONLY | _ALWAYS), "rb", 1 << 20)

    def size(self, path: Path) -> int:
        """As the protocol says."""
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        """As the protocol says."""
        return sorted(each.name for each in folder.iterdir())
