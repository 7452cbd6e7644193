"""The spooled receipts of this host as pages, oldest first, over all its folders.

Promises: a receipt that is older than those of a page is in it or in an earlier one; a source whose
mark was lost is marked again before its page is stored; receipts that are unreadable are set apart
unchanged, and shown. Known limit: only one thread may use it at once.
*See:* `drain.py`, which stores the pages.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from inboxd.errors import UnreadableReceipt
from inboxd.inbound.group_commit import PAGE_EVENTS
from inboxd.inbound.spool.encoding import Order, decode
from inboxd.inbound.spool.files import Files
from inboxd.inbound.spool.folder import folders, is_owned
from inboxd.inbound.spool.log import Reader, segments, set_apart
from inboxd.inbound.spool.markers import Gates
from inboxd.model.receipt import Receipt
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE_BYTES = 8 << 20


class SpooledFrame(NamedTuple):
    """A receipt in a folder; compared by its order stamp."""

    order: Order
    number: int
    place: int
    folder: Path
    receipt: Receipt
    content: bytes


class DrainPage(NamedTuple):
    """The oldest receipts. is_last: no further receipts are waiting."""

    rows: list[SpooledFrame]
    is_last: bool


class SpooledPages:
    def __init__(self, path: Path, files: Files, gates: Gates) -> None:
        self._path = path
        self._files = files
        self._gates = gates
        self._readers: dict[Path, Reader] = {}
        self._waiting: dict[Path, deque[SpooledFrame]] = {}
        self._reported_torn: set[Path] = set()

    def are_there(self) -> bool:
        """Checks segments, too: a copied folder may have lost its marks."""
        return bool(self._gates.marked()) or any(
            segments(folder, self._files) for folder in folders(self._path)
        )

    def next(self, most: int) -> DrainPage:
        """Take the oldest receipts of all folders, which are read twice while processes append.

        A receipt that is newer than all receipts of the first reading waits for the next page: the
        second reading finds every receipt that was answered before it came.
        """
        self._read_folders(most)
        newest = max((each[-1].order for each in self._waiting.values() if each), default=None)
        if newest is None:
            return DrainPage([], is_last=True)
        self._read_folders(most)
        rows: list[SpooledFrame] = []
        size = events = 0
        for each in merge(*(list(waiting) for waiting in self._waiting.values())):
            events += len(each.receipt.events)
            if each.order > newest or (rows and events > PAGE_EVENTS):
                break
            self._waiting[each.folder].popleft()
            rows.append(each)
            size += len(each.content)
            if len(rows) >= most or size >= _PAGE_BYTES:
                break
        else:
            self._mark(rows)
            return DrainPage(rows, is_last=True)
        self._mark(rows)
        return DrainPage(rows, is_last=False)

    def _read_folders(self, most: int) -> None:
        found = folders(self._path)
        for gone in self._readers.keys() - set(found):
            del self._readers[gone], self._waiting[gone]
        for index, folder in enumerate(found):
            if folder not in self._readers:
                self._readers[folder] = Reader(folder, self._files)
                self._waiting[folder] = deque()
            self._fill(index, folder, most)

    def _mark(self, rows: Sequence[SpooledFrame]) -> None:
        """Restore lost marks, so that no new receipt overtakes a spooled one."""
        for source in {each.receipt.source for each in rows}:
            if not self._gates.is_marked(source):
                self._gates.mark(source)

    def _fill(self, index: int, folder: Path, most: int) -> None:
        reader, owned = self._readers[folder], partial(is_owned, folder)
        waiting = self._waiting[folder]
        size = sum(len(each.content) for each in waiting)
        while len(waiting) < most and size < _PAGE_BYTES:
            page = reader.page(most - len(waiting), _PAGE_BYTES - size, owned=owned)
            self._report_torn(reader)
            if not page:
                return
            size += sum(len(content) for _, content in page)
            for number, content in page:
                try:
                    order, receipt = decode(content)
                except UnreadableReceipt as error:
                    self.keep_apart(folder, number, content, str(error))
                else:
                    frame = SpooledFrame(order, number, index, folder, receipt, content)
                    waiting.append(frame)

    def _report_torn(self, reader: Reader) -> None:
        """Log each torn end once, since a restarted drain finds the same ends again."""
        for each in reader.torn:
            if each.segment not in self._reported_torn:
                self._reported_torn.add(each.segment)
                _log.warning(
                    "a spooled file ends within a webhook, which is skipped; the webhook was not "
                    "answered, unless another program cut the file",
                    file=str(each.segment),
                    bytes=each.bytes,
                )

    def pass_by(self, page: Sequence[SpooledFrame]) -> None:
        """Record rows as stored or set apart."""
        for each in page:
            reader = self._readers.get(each.folder)
            if reader is not None:  # else an operator has removed the folder
                reader.pass_by(each.number)

    def keep_apart(self, folder: Path, number: int, content: bytes, reason: str) -> None:
        set_apart(folder, self._files, f"{number:020d}", content, reason)
        _log.error(
            "a spooled webhook is set apart", folder=str(folder), frame=number, reason=reason
        )

    def tidy(self) -> None:
        for folder, reader in self._readers.items():
            with suppress(FileNotFoundError):  # an operator has removed the folder
                reader.tidy(owned=partial(is_owned, folder))

    def forget(self) -> None:
        """Forget receipts that were read and not passed by; they are read again."""
        self._readers.clear()
        self._waiting.clear()
