"""Reads a host's spool for operators, from its files; changes nothing, and reads whole segments."""

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
from inboxd.inbound.spool.log import APART, read_cursor, segments
from inboxd.inbound.spool.markers import marks
from inboxd.model.receipt import Receipt

_FILES = SystemFiles()
T = TypeVar("T")


class FolderView(NamedTuple):
    """oldest: when its first receipt came. waiting, damaged: None: there was too much to read."""

    folder: str
    owner: str
    waiting: int | None
    bytes: int
    oldest: datetime | None
    set_apart: int
    damaged: int | None


class WaitingReceipt(NamedTuple):
    folder: str
    number: int
    receipt: Receipt


class ApartItem(NamedTuple):
    """An item that is set apart; receipt: None if its bytes are no receipt."""

    name: str
    folder: Path
    reason: str
    bytes: int
    receipt: Receipt | None

    @property
    def paths(self) -> tuple[Path, Path]:
        """Its two files; the listing comes first."""
        apart = self.folder / APART
        return apart / f"{self.name}.json", apart / f"{self.name}.bytes"


class Verified(NamedTuple):
    """damage: segment, place and reason of each. torn: segment, place and size of each."""

    folder: str
    frames: int
    bytes: int
    damage: list[str]
    torn: list[str]


def spool_path(path: Path | None) -> Path:
    """The path of the spool. Raises SettingsError if it is unset or unreadable."""
    if path is None:
        raise SettingsError(
            "these settings have no spool: set inbound.spool.path to the receiver's"
        )
    with suppress(FileNotFoundError):
        try:
            list(path.iterdir())
        except PermissionError as error:
            raise _denied(path) from error
    return path


def views(path: Path, most: float = math.inf, limit: int | None = None) -> list[FolderView]:
    """All folders, or the first `limit`; reads `most` bytes at most in all folders together."""
    found = []
    for folder in folders(path)[:limit]:
        found.append(view(folder, most))
        if found[-1].waiting is not None:
            most -= found[-1].bytes
    return found


def view(folder: Path, most: float = math.inf) -> FolderView:
    """One folder; if it has more than `most` bytes, its receipts are not read."""
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
    return marks(path)


def waiting(folder: Path) -> Iterator[WaitingReceipt]:
    """The waiting receipts of a folder, in order; unreadable ones are skipped."""
    for each in _frames(folder):
        if isinstance(each, Frame):
            try:
                yield WaitingReceipt(folder.name, each.number, decode(each.content).receipt)
            except UnreadableReceipt:
                continue


def set_apart(folder: Path) -> Iterator[ApartItem]:
    return (_item(folder, path) for path in _listings(folder))


def folder_named(path: Path, name: str) -> Path:
    """The folder whose name begins with this text. Raises NotFound, or Conflict for several."""
    return _only(
        [each for each in folders(path) if each.name.startswith(name)], "folder of the spool", name
    )


def item_named(path: Path, name: str) -> ApartItem:
    """The item set apart with this name, `FOLDER/NAME` if ambiguous, or with this receipt id."""
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
    return _only(found, "item that is set apart with the name", name)


def verify(folder: Path) -> Verified:
    """Check all checksums of a folder, also of drained frames that are not removed yet."""
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
    return sorted((folder / APART).glob("*.json"))


def _frames(folder: Path) -> Iterator[Frame | Damage]:
    """Waiting frames and damage, without torn ends: their requests were never accepted."""
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
        return  # drained in the meantime


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
        raise NotFound(f"there is no {what} {name!r}: `inboxd spool list` and `show` list them")
    if len(found) > 1:
        raise Conflict(
            f"the name {name!r} matches {len(found)}: give a longer part, or FOLDER/NAME"
        )
    return found[0]


def _denied(path: Path) -> SettingsError:
    return SettingsError(
        f"inbound.spool.path {str(path)!r} may not be read: run the command as the receiver's user"
    )
