"""One folder of segments: its owner appends, the drainer reads and removes.

Promises: `append` returns when its frames and the names of their files are on the disk; after a
failed sync nothing is appended or synced again, since a second sync would report lost data as
written; a full disk leaves no partial frame; the cursor is on the disk before a segment behind it
is removed; damaged bytes are set apart unchanged before the cursor passes them. Each owner begins
its own segment, so it never writes behind a torn end. A number that a reader may have seen is never
used again.
"""

import errno
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import orjson

from inboxd.errors import SpoolBroken, SpoolFull
from inboxd.inbound.spool.files import Files
from inboxd.inbound.spool.frames import HEADER, Damage, Frame, encode, scan

SUFFIX = ".segment"
CURSOR = "cursor"
APART = "apart"

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Appender:
    """Appends to a folder, for its owner. Not thread-safe: one call at a time."""

    def __init__(self, folder: Path, files: Files, *, quota: int, segment_bytes: int) -> None:
        """quota: bytes of all segments; segment_bytes: size of a full one. Raises OSError."""
        self._folder = folder
        self._files = files
        self._quota = quota
        self._segment_bytes = segment_bytes
        self._handle: int | None = None
        self._path = folder
        self._size = 0
        self._next = _behind(folder, files)
        self._last = self._next - 1
        self._broken: SpoolBroken | None = None

    @property
    def next_number(self) -> int:
        return self._next

    @property
    def broken(self) -> SpoolBroken | None:
        """The error after which no more frames are accepted."""
        return self._broken

    def append(self, contents: Sequence[bytes]) -> None:
        """Raises SpoolFull or SpoolBroken; then no request of the page may be accepted."""
        if self._broken is not None:
            raise self._broken
        data = b"".join(
            encode(number, content) for number, content in enumerate(contents, self._next)
        )
        self._make_room(len(data))
        try:
            handle = self._segment(len(data))
            self._write(handle, data, len(contents))
        except OSError as error:
            raise self.failed("be written to", error) from error
        try:
            self._files.sync(handle)
        except OSError as error:
            raise self._broke("be synced", error) from error
        self._next += len(contents)
        self._last = self._next - 1
        self._size += len(data)

    def leave_drained(self) -> None:
        """Remove the segment if the database has all of it. Raises OSError."""
        if self._handle is None or not self._size or self._broken is not None:
            return
        if read_cursor(self._folder, self._files) >= self._last:
            self._rest()
            with suppress(FileNotFoundError):
                self._files.remove(self._path)

    def failed(self, what: str, error: OSError) -> SpoolFull | SpoolBroken:
        """The error to raise for an error of the disk; it is final, unless the disk is full."""
        if error.errno in _FULL:
            return SpoolFull(
                f"{self._folder}: the disk of the spool is full; make room on it, or repair "
                "the database, so that the spool drains"
            )
        return self._broke(what, error)

    def _rest(self) -> None:
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None

    def _make_room(self, bytes_: int) -> None:
        used = size_of(self._folder, self._files)
        if used + bytes_ > self._quota:
            raise SpoolFull(
                f"{self._folder}: the spool has {used} bytes of at most {self._quota}; "
                "repair the database, so that it drains, or raise inbound.spool.quota"
            )

    def _segment(self, bytes_: int) -> int:
        if self._handle is not None and self._size and self._size + bytes_ > self._segment_bytes:
            self._rest()
        if self._handle is None:
            self._path = self._folder / f"{self._next:020d}{SUFFIX}"
            self._handle = self._files.create(self._path)
            self._size = 0
            try:
                self._files.sync_folder(self._folder)
            except OSError as error:
                raise self._broke("be synced", error) from error
        return self._handle

    def _write(self, handle: int, data: bytes, frames: int) -> None:
        try:
            self._files.write(handle, data)
        except OSError:
            # A reader may have seen some of these frames, so their numbers are not used again.
            self._files.cut(handle, self._size)
            self._next += frames
            self._rest()
            if not self._size:
                self._files.remove(self._path)
            raise

    def _broke(self, what: str, error: OSError) -> SpoolBroken:
        self._broken = SpoolBroken(
            f"{self._folder}: the spool cannot {what} ({error.strerror}): it keeps what was "
            "answered before and accepts nothing more; check the disk, then restart the receiver"
        )
        return self._broken


class Spooled(NamedTuple):
    number: int
    content: bytes


class TornEnd(NamedTuple):
    """An incomplete frame at the end of a segment that will not grow any more."""

    segment: Path
    bytes: int


class Reader:
    def __init__(self, folder: Path, files: Files) -> None:
        """Begins at the cursor. Raises OSError."""
        self._folder = folder
        self._files = files
        self.cursor = read_cursor(folder, files)
        self._segment: Path | None = None
        self._place = 0
        self._given = self.cursor
        # Segments that were read to their final end, with the last frame returned at that time.
        self._read_out: dict[Path, int] = {}
        self.torn: list[TornEnd] = []
        self.apart = 0

    def page(self, rows: int, bytes_: int, *, owned: Callable[[], bool]) -> list[Spooled]:
        """At most `rows` and about `bytes_`; empty: none now. After an OSError, use a new reader.

        owned: whether an owner may still append to the last segment, and complete a torn end.
        """
        paths, growing = self._segments(owned)
        found: list[Spooled] = []
        for path in paths:
            if path in self._read_out or (self._segment is not None and path < self._segment):
                continue
            if path != self._segment:
                self._segment, self._place = path, 0
            ended = self._read(path, found, rows, bytes_, growing=path == growing)
            if not ended:
                break
            self._read_out[path] = self._given
        return found

    def pass_by(self, number: int) -> None:
        """Pass all frames up to this one: they are in the database, or set apart."""
        self.cursor = max(self.cursor, number)

    def tidy(self, *, owned: Callable[[], bool]) -> None:
        """owned: whether an owner may still append to the last segment. Raises OSError."""
        paths, growing = self._segments(owned)
        if self.cursor != read_cursor(self._folder, self._files):
            write_cursor(self._folder, self._files, self.cursor)
        for path in paths:
            if path == growing or self._read_out.get(path, math.inf) > self.cursor:
                return
            with suppress(FileNotFoundError):
                self._files.remove(path)
            del self._read_out[path]
            if path == self._segment:
                self._segment = None

    def _segments(self, owned: Callable[[], bool]) -> tuple[list[Path], Path | None]:
        """List first, then check: an owner that comes later only writes to segments not listed."""
        paths = segments(self._folder, self._files)
        return paths, paths[-1] if paths and owned() else None

    def _read(
        self, path: Path, found: list[Spooled], rows: int, bytes_: int, *, growing: bool
    ) -> bool:
        """Add frames of a segment; returns whether its final end is reached."""
        left = bytes_ - sum(len(each.content) for each in found)
        try:
            size, file = self._files.size(path), self._files.read(path)
        except FileNotFoundError:
            return True  # its owner has removed it after the drain
        with file:
            for each in scan(file, size, self._place):
                if len(found) >= rows or left <= 0:
                    return False
                if isinstance(each, Frame):
                    if each.number > self.cursor:
                        found.append(Spooled(each.number, each.content))
                        left -= len(each.content)
                        self._given = max(self._given, each.number)
                elif each.torn and each.end == size:
                    if growing:
                        return False
                    self.torn.append(TornEnd(path, each.end - each.start))
                elif each.number is None or each.number > self.cursor:
                    file.seek(each.start)
                    self._set_apart(path, each, file.read(each.end - each.start))
                self._place = each.end
        return not growing

    def _set_apart(self, segment: Path, damage: Damage, data: bytes) -> None:
        name = f"{segment.stem}-{damage.start}"
        set_apart(self._folder, self._files, name, data, damage.reason)
        self.apart += 1


def set_apart(folder: Path, files: Files, name: str, data: bytes, reason: str) -> None:
    """Copy bytes to a file of their own, with the reason; a repetition changes nothing."""
    apart = folder / APART
    files.replace(apart / f"{name}.bytes", data)
    files.replace(apart / f"{name}.json", orjson.dumps({"reason": reason, "bytes": len(data)}))


def count_apart(folder: Path, files: Files) -> int:
    try:
        return sum(name.endswith(".json") for name in files.names(folder / APART))
    except FileNotFoundError:  # the folder is being made
        return 0


def segments(folder: Path, files: Files) -> list[Path]:
    """The segments of a folder, oldest first."""
    return [folder / name for name in files.names(folder) if name.endswith(SUFFIX)]


def size_of(folder: Path, files: Files) -> int:
    total = 0
    for path in segments(folder, files):
        with suppress(FileNotFoundError):  # it is drained
            total += files.size(path)
    return total


def write_cursor(folder: Path, files: Files, number: int) -> None:
    """Record the last drained frame of a folder. Raises OSError."""
    text = b"%020d" % number
    line = b"%b %08x\n" % (text, crc32(text))
    try:
        files.replace(folder / CURSOR, line)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        # A drain frees room, but needs the cursor first. If this write is interrupted, the cursor
        # is unreadable, and frames are repeated.
        files.overwrite(folder / CURSOR, line)


def read_cursor(folder: Path, files: Files) -> int:
    """The last drained frame of a folder; 0, so that all are repeated, if that is unreadable."""
    try:
        with files.read(folder / CURSOR) as file:
            number, checksum = file.read().split()
        return int(number) if int(checksum, 16) == crc32(number) else 0
    except (FileNotFoundError, ValueError):
        return 0


def _first_of(segment: Path) -> int:
    return int(segment.stem)


def _behind(folder: Path, files: Files) -> int:
    """A number greater than all numbers that the folder has used."""
    highest = read_cursor(folder, files)
    for path in segments(folder, files)[-1:]:
        highest = max(highest, _first_of(path))  # the name counts, even without a frame
        try:
            size, file = files.size(path), files.read(path)
        except FileNotFoundError:
            return max(highest, read_cursor(folder, files)) + 1  # it was just drained
        with file:
            for each in scan(file, size):
                # The maximum number of frames in the damaged bytes.
                hidden = 0 if each.number is not None else (each.end - each.start) // HEADER
                highest = max(highest, each.number or highest) + hidden
    return highest + 1
