"""What lies in the spool of a host, for people: by files alone, without the database.

Promises: nothing is changed, and a spool that is in use goes on meanwhile; what its drain takes
away while somebody looks is not an error. Known limit: each look reads the segments as a whole.
*See:* `folder.py`, whose layout this reads; `tending.py`, which changes something.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import UUID

import orjson

from inboxd.errors import Conflict, NotFound, SettingsError, UnreadableReceipt
from inboxd.inbound.spool.encoding import decode
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import folders, is_owned
from inboxd.inbound.spool.frames import Damage, Frame, scan
from inboxd.inbound.spool.gates import marks
from inboxd.inbound.spool.log import APART, read_cursor, segments
from inboxd.model.receipt import Receipt

_FILES = SystemFiles()
T = TypeVar("T")


class FolderView(NamedTuple):
    """A folder of the spool. oldest: when the first receipt that waits was received.

    waiting, damaged: None, where that is more than somebody wanted to read.
    """

    folder: str
    owner: str
    waiting: int | None
    bytes: int
    oldest: datetime | None
    set_apart: int
    damaged: int | None


class WaitingReceipt(NamedTuple):
    """A receipt that waits in a folder."""

    folder: str
    number: int
    receipt: Receipt


class ApartItem(NamedTuple):
    """What is set apart; receipt: None if its bytes are none."""

    name: str
    folder: Path
    reason: str
    bytes: int
    receipt: Receipt | None

    @property
    def paths(self) -> tuple[Path, Path]:
        """Its files; the one that lists it comes first."""
        apart = self.folder / APART
        return apart / f"{self.name}.json", apart / f"{self.name}.bytes"


class Verified(NamedTuple):
    """What the checksums of a folder say; damage: segment, place and reason of each.

    torn: segment and place of each frame that was begun and not ended, by a process that is gone.
    """

    folder: str
    frames: int
    bytes: int
    damage: list[str]
    torn: list[str]


def spool_path(path: Path | None) -> Path:
    """The folder of all. Raises SettingsError if there is none, or it may not be read."""
    if path is None:
        raise SettingsError("there is no spool: set inbound.spool.path, as the receiver has it")
    with suppress(FileNotFoundError):
        try:
            list(path.iterdir())
        except PermissionError as error:
            raise _denied(path) from error
    return path


def views(path: Path, most: float = math.inf, limit: int | None = None) -> list[FolderView]:
    """All folders, or so many, each as `view` has it; of all together at most `most` is read."""
    found = []
    for folder in folders(path)[:limit]:
        found.append(view(folder, most))
        if found[-1].waiting is not None:
            most -= found[-1].bytes
    return found


def view(folder: Path, most: float = math.inf) -> FolderView:
    """One folder; if it has more bytes than `most`, what waits there is not read."""
    size = sum(_size(path) for path in segments(folder, _FILES))
    owner = "alive" if is_owned(folder) else "gone"
    apart = len(_listings(folder))
    if size > most:
        return FolderView(folder.name, owner, None, size, None, apart, None)
    count = damaged = 0
    oldest = None
    for each in _frames(folder):
        if isinstance(each, Damage):
            damaged += 1
            continue
        count += 1
        if oldest is None:
            oldest = _received_at(each.content)
    return FolderView(folder.name, owner, count, size, oldest, apart, damaged)


def spooled_sources(path: Path) -> list[str]:
    """The sources whose new webhooks are spooled on this host."""
    return marks(path)


def waiting(folder: Path) -> Iterator[WaitingReceipt]:
    """The receipts that wait there, in their order; what cannot be read is passed over."""
    for each in _frames(folder):
        if isinstance(each, Frame):
            try:
                yield WaitingReceipt(folder.name, each.number, decode(each.content).receipt)
            except UnreadableReceipt:
                continue


def set_apart(folder: Path) -> Iterator[ApartItem]:
    """What is set apart there, each read when it is asked for."""
    return (_item(folder, path) for path in _listings(folder))


def folder_named(path: Path, name: str) -> Path:
    """The folder whose name begins so. Raises NotFound, or Conflict if several do."""
    return _only(
        [each for each in folders(path) if each.name.startswith(name)], "folder of the spool", name
    )


def item_named(path: Path, name: str) -> ApartItem:
    """What is set apart by this name, `FOLDER/NAME` where several folders have it; or by its id."""
    folder, _, own = name.rpartition("/")
    places = [each for each in folders(path) if each.name.startswith(folder)]
    found = [
        _item(place, listing)
        for place in places
        for listing in _listings(place)
        if own in (listing.stem, listing.stem.lstrip("0"))
    ]
    if not found and _is_id(own):
        found = [each for place in places for each in set_apart(place) if _id_of(each) == own]
    return _only(found, "thing that is set apart with the name", name)


def verify(folder: Path) -> Verified:
    """Compare each checksum of a folder, also of what is drained and not removed yet."""
    frames, size = 0, 0
    damage: list[str] = []
    torn: list[str] = []
    owned = is_owned(folder)
    paths = segments(folder, _FILES)
    for path in paths:
        for each in _scanned(path):
            if isinstance(each, Frame):
                frames, size = frames + 1, each.end - each.start + size
            elif not each.torn:
                damage.append(f"{path.name} at {each.start}: {each.reason}")
            elif not owned or path != paths[-1]:
                torn.append(f"{path.name} at {each.start}: {each.end - each.start} bytes")
    return Verified(folder.name, frames, size, damage, torn)


def _listings(folder: Path) -> list[Path]:
    """The files that list what is set apart there."""
    return sorted((folder / APART).glob("*.json"))


def _frames(folder: Path) -> Iterator[Frame | Damage]:
    """What waits there; a torn end is none: it was never answered for."""
    cursor = read_cursor(folder, _FILES)
    for path in segments(folder, _FILES):
        for each in _scanned(path):
            torn = isinstance(each, Damage) and each.torn
            if not torn and (each.number is None or each.number > cursor):
                yield each


def _scanned(path: Path) -> Iterator[Frame | Damage]:
    try:
        size = _FILES.size(path)
        with _FILES.read(path) as file:
            yield from scan(file, size)
    except FileNotFoundError:
        return  # drained meanwhile


def _size(path: Path) -> int:
    try:
        return _FILES.size(path)
    except FileNotFoundError:
        return 0


def _item(folder: Path, path: Path) -> ApartItem:
    told = orjson.loads(path.read_bytes())
    content = path.with_suffix(".bytes").read_bytes()
    try:
        receipt = decode(content).receipt
    except UnreadableReceipt:
        receipt = None
    return ApartItem(path.stem, folder, told["reason"], told["bytes"], receipt)


def _received_at(content: bytes) -> datetime | None:
    try:
        return decode(content).receipt.received_at
    except UnreadableReceipt:
        return None


def _is_id(name: str) -> bool:
    try:
        UUID(name)
    except ValueError:
        return False
    return True


def _id_of(item: ApartItem) -> str | None:
    return None if item.receipt is None else str(item.receipt.receipt_id)


def _only(found: list[T], what: str, name: str) -> T:
    if not found:
        raise NotFound(f"there is no {what} {name!r}: `inboxd spool list` and `show` name them")
    if len(found) > 1:
        raise Conflict(f"{len(found)} have the name {name!r}: give more of it, or FOLDER/NAME")
    return found[0]


def _denied(path: Path) -> SettingsError:
    return SettingsError(
        f"inbound.spool.path {str(path)!r} may not be read: run it as the receiver's user"
    )
