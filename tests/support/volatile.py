"""A disk in memory that forgets: after a crash, unsynced data may be lost, in part or whole.

    files = VolatileFiles(random.Random(seed))
    files.crash()

It has the methods of `inboxd/inbound/spool/files.py`. Promises: after `crash` a file has all synced
data, and of the later data a beginning, or the length and zeros; a name whose folder was not synced
may be missing; steps fail on request.
"""

import errno
import io
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO


@dataclass
class _File:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0


class VolatileFiles:
    """Implements `Files` in memory, and crashes."""

    def __init__(self, chance: random.Random) -> None:
        """`chance` decides what a crash destroys."""
        self._chance = chance
        self._now: dict[Path, _File] = {}
        self._lasting: dict[Path, _File] = {}
        self._handles: dict[int, _File] = {}
        self._last = 100
        self.room: int | None = None  # bytes that are free on the disk; None: no limit
        self.failing: set[str] = set()  # steps that fail with EIO
        self.steps: list[str] = []

    def crash(self) -> None:
        """Lose unsynced data and names, as a crash of the machine does."""
        self._handles.clear()
        for path in {*self._now, *self._lasting}:
            lasting = self._lasting.get(path) is not None
            if (path in self._now) != lasting and self._chance.random() < 0.5:
                lasting = not lasting
            file = self._now.get(path) or self._lasting[path]
            self._now.pop(path, None)
            if lasting:
                self._now[path] = file
                self._forget(file)
        self._lasting = dict(self._now)

    def _forget(self, file: _File) -> None:
        kept = self._chance.randint(file.synced, len(file.data))
        zeros = self._chance.randint(0, len(file.data) - kept) if self._chance.random() < 0.3 else 0
        file.data[kept:] = bytes(zeros)
        file.synced = len(file.data)

    def create(self, path: Path) -> int:
        self._step("create")
        if path in self._now:
            raise FileExistsError(path)
        self._now[path] = _File()
        return self._handle(self._now[path])

    def append_to(self, path: Path) -> int:
        return self._handle(self._now[path])

    def write(self, handle: int, data: bytes) -> None:
        """Write; on a full disk, only a part."""
        self._step("write")
        file = self._handles[handle]
        if self.room is not None and len(data) > self.room:
            file.data += data[: self.room]
            self.room = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.room is not None:
            self.room -= len(data)
        file.data += data

    def sync(self, handle: int) -> None:
        file = self._handles[handle]
        if "sync" in self.failing:
            self._forget(file)
        self._step("sync")
        file.synced = len(file.data)

    def cut(self, handle: int, size: int) -> None:
        self._step("cut")
        file = self._handles[handle]
        if self.room is not None:
            self.room += len(file.data) - size
        del file.data[size:]
        file.synced = min(file.synced, size)

    def close(self, handle: int) -> None:
        del self._handles[handle]

    def sync_folder(self, folder: Path) -> None:
        self._step("sync_folder")
        for path in {*self._now, *self._lasting}:
            if path.parent == folder:
                self._lasting.pop(path, None)
                if path in self._now:
                    self._lasting[path] = self._now[path]

    def replace(self, path: Path, data: bytes) -> None:
        self._step("replace")
        self._now[path] = self._lasting[path] = _File(bytearray(data), len(data))

    def overwrite(self, path: Path, data: bytes) -> None:
        self._step("overwrite")
        self._now[path].data[: len(data)] = data

    def remove(self, path: Path) -> None:
        self._step("remove")
        del self._now[path]

    def read(self, path: Path) -> BinaryIO:
        if path not in self._now:
            raise FileNotFoundError(path)
        return io.BytesIO(bytes(self._now[path].data))

    def size(self, path: Path) -> int:
        return len(self._now[path].data)

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in self._now if path.parent == folder)

    def spoil(self, path: Path, place: int, bit: int) -> None:
        self._now[path].data[place] ^= 1 << bit

    def truncate(self, path: Path, size: int) -> None:
        del self._now[path].data[size:]

    def _handle(self, file: _File) -> int:
        self._last += 1
        self._handles[self._last] = file
        return self._last

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.failing:
            raise OSError(errno.EIO, "Input/output error")
