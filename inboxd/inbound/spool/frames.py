"""The frames of a segment: a format in which readers detect damage, and skip it.

A frame is a header (magic, length, number, checksum of the content, checksum of the header itself),
then the content; little-endian, checksums are CRC-32. Behind damage the next good header is
searched; no bytes raise an error. An error of more than 32 bits goes unnoticed once in 2^32.
"""

from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, NamedTuple
from zlib import crc32

MAGIC = b"\xf1ibx"
# The largest content in bytes; a larger length is damage.
LARGEST = 1 << 30

_FIELDS = Struct("<4sIQI")  # magic, length, number, checksum of the content
_CHECKSUM = Struct("<I")
HEADER = _FIELDS.size + _CHECKSUM.size
# Bytes that are read at a time in the search for the next header.
_WINDOW = 1 << 20


class Frame(NamedTuple):
    number: int
    content: bytes
    start: int
    end: int


class Damage(NamedTuple):
    """number: if its header is good. torn: the file ends within it, as after a process died."""

    number: int | None
    start: int
    end: int
    reason: str
    torn: bool = False


def encode(number: int, content: bytes) -> bytes:
    fields = _FIELDS.pack(MAGIC, len(content), number, crc32(content))
    return b"".join((fields, _CHECKSUM.pack(crc32(fields)), content))


def scan(file: BinaryIO, size: int, start: int = 0) -> Iterator[Frame | Damage]:
    """Read the frames of a segment up to `size`, in order, and the damage between them."""
    place = start
    while place < size:
        file.seek(place)
        found = _read(file, place, size)
        if found is None:
            behind = _next_header(file, place + 1, size)
            found = Damage(
                None, place, behind, "not a frame", torn=_is_cut(file, place, behind, size)
            )
        yield found
        place = found.end


def _read(file: BinaryIO, place: int, size: int) -> Frame | Damage | None:
    """The frame or damage at this place; None: there is no good header."""
    header = file.read(min(HEADER, size - place))
    parsed = _parse(header)
    if parsed is None:
        return None
    length, number, checksum = parsed
    end = place + HEADER + length
    if end > size:
        return Damage(number, place, size, "the file ends within it", torn=True)
    content = file.read(length)
    if len(content) < length:  # the file was cut while it was read
        return Damage(number, place, size, "the file ends within it", torn=True)
    if crc32(content) != checksum:
        return Damage(number, place, end, "its checksum is wrong")
    return Frame(number, content, place, end)


def _parse(header: bytes) -> tuple[int, int, int] | None:
    if len(header) < HEADER:
        return None
    fields = header[: _FIELDS.size]
    magic, length, number, checksum = _FIELDS.unpack(fields)
    (own,) = _CHECKSUM.unpack_from(header, _FIELDS.size)
    if magic != MAGIC or crc32(fields) != own or length > LARGEST:
        return None
    return length, number, checksum


def _is_cut(file: BinaryIO, place: int, behind: int, size: int) -> bool:
    """Whether the last bytes may be a header that was not written, or only partly."""
    if behind < size or size - place >= HEADER:
        file.seek(place)
        # The file system may have set the length of a file before its bytes.
        return behind == size and not any(_chunks(file, size - place))
    return True


def _chunks(file: BinaryIO, left: int) -> Iterator[bool]:
    while left > 0:
        read = file.read(min(left, _WINDOW))
        if not read:
            return
        left -= len(read)
        yield bool(read.strip(b"\0"))


def _next_header(file: BinaryIO, place: int, size: int) -> int:
    """The position of the next good header; else `size`."""
    while place < size:
        file.seek(place)
        window = file.read(min(_WINDOW, size - place))
        if not window:
            return size
        at = window.find(MAGIC)
        while at >= 0:
            file.seek(place + at)
            if _parse(file.read(min(HEADER, size - place - at))) is not None:
                return place + at
            at = window.find(MAGIC, at + 1)
        # The magic may cross the end of the window.
        place += max(1, len(window) - len(MAGIC) + 1)
    return size
