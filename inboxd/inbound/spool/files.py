"""The spool's file operations, one method each: tests replace them, to make them fail or lose data.

Promises: when `sync` or `sync_folder` returns, the data is on the disk, as far as the disk tells
the truth; a write is complete or raises; symbolic links are never followed.
"""

import os
from pathlib import Path
from typing import BinaryIO, Protocol

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW


class Files(Protocol):
    """Operations on files. All methods raise OSError."""

    def create(self, path: Path) -> int:
        """Create a file for appending; its name is on the disk after `sync_folder`."""
        ...

    def append_to(self, path: Path) -> int: ...

    def write(self, handle: int, data: bytes) -> None: ...

    def sync(self, handle: int) -> None: ...

    def cut(self, handle: int, size: int) -> None: ...

    def close(self, handle: int) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...

    def replace(self, path: Path, data: bytes) -> None:
        """Replace a small file's content, all or nothing; on the disk when this returns."""
        ...

    def overwrite(self, path: Path, data: bytes) -> None:
        """Overwrite a small file of the same length; an interruption leaves a part of the data."""
        ...

    def remove(self, path: Path) -> None: ...

    def read(self, path: Path) -> BinaryIO: ...

    def size(self, path: Path) -> int: ...

    def names(self, folder: Path) -> list[str]:
        """The sorted names of a folder's entries."""
        ...


class SystemFiles:
    def create(self, path: Path) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _ALWAYS
        return os.open(path, flags, 0o600)

    def append_to(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_APPEND | _ALWAYS)

    def write(self, handle: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(handle, left) :]

    def sync(self, handle: int) -> None:
        # Syncs the data, and the metadata that is needed to read it, such as the length.
        os.fdatasync(handle)

    def cut(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        os.close(handle)

    def sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, path: Path, data: bytes) -> None:
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
        handle = os.open(path, os.O_WRONLY | _ALWAYS)
        try:
            self.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        path.unlink()

    def read(self, path: Path) -> BinaryIO:
        return os.fdopen(os.open(path, os.O_RDONLY | _ALWAYS), "rb", 1 << 20)

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        return sorted(each.name for each in folder.iterdir())
