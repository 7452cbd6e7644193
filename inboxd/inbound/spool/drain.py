"""Drains what this host has spooled into the database: oldest first, over all its folders.

Owns the drain, of which each host has one, by a lock; any process with a receiver takes it.
Promises: receipts are written in the order in which they were spooled, whichever process did; a
page is passed by after its commit, so a crash repeats it, and the database knows the receipts that
it has; what the database refuses, what cannot be read and what is older than the database's memory
of receipts is set apart, whole, and shown; a source is unmarked while nobody can append for it. A
page that takes too long, of a database that commits, is halved; what takes too long by itself gets
more time once, then it is set apart, so nobody waits for it for ever. What waits for a lock that
somebody else has gets minutes: most are free by then.
Newer receipts of a source that is drained queue behind, in the spool. The event loop and the thread
that reads share nothing while both work: what a thread may change is passed to it, or waits.
Known limit: while the last page of a source is written, new receipts of it wait for that long.
*See:* `writer.py`, `gates.py`, `log.py`.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import merge
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeAlias
from uuid import UUID

import anyio
from anyio import to_thread

from inboxd.errors import SpoolOwned, UnreadableReceipt
from inboxd.inbound.group_commit import PAGE_EVENTS, Write
from inboxd.inbound.sources import broken_instead
from inboxd.inbound.spool.encoding import Order, decode
from inboxd.inbound.spool.files import Files
from inboxd.inbound.spool.folder import Lock, drain_lock, folders, is_owned
from inboxd.inbound.spool.gates import Gates
from inboxd.inbound.spool.log import Reader, segments, set_apart
from inboxd.model.outcome import explain
from inboxd.model.receipt import Receipt
from inboxd.model.wording import plural
from inboxd.store.connections import is_late, is_refusal, waits_for_lock
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 500
_FEWEST = 10  # rows of a page, when more take the database too long
_PAGE_BYTES = 8 << 20
_TIDY = 20  # pages between two looks at what may be removed
_PAUSE = 0.2  # seconds between two looks for work, and after a failure
_LOCKED = 300.0  # seconds that a receipt may wait for a lock, and others behind it


Commit: TypeAlias = Callable[[], Awaitable[None]]


class SpooledFrame(NamedTuple):
    """A receipt in a folder; compared by its order."""

    order: Order
    number: int
    place: int
    folder: Path
    receipt: Receipt
    content: bytes


class DrainPage(NamedTuple):
    """The oldest receipts; is_last: there were no more."""

    rows: list[SpooledFrame]
    is_last: bool


class DrainWays(NamedTuple):
    """How else a drain asks the database; what is unset is done by its `write`, or left out.

    last: within half of `after`, since requests wait for it, at closed gates. alone: one receipt
    that takes long. commit: commits next to nothing, and raises if that is not done in time.
    """

    last: Write | None = None
    alone: Write | None = None
    commit: Commit | None = None


_ONE_WAY = DrainWays()


class Drain:
    """The drain of this host, in this process."""

    def __init__(
        self,
        path: Path,
        files: Files,
        gates: Gates,
        write: Write,
        *,
        ways: DrainWays = _ONE_WAY,
        remembers: timedelta | None,
        is_away: Callable[[], bool] = lambda: False,
        after: float = 2.0,
    ) -> None:
        """remembers: how long the database knows a receipt; an older one might double."""
        self._path = path
        self._files = files
        self._gates = gates
        self._write = write
        self._remembers = remembers  # None: for ever
        self._is_away = is_away
        self._write_last, self._write_alone = ways.last or write, ways.alone or write
        self._commit = ways.commit
        self._closing, self._last = after / 4, 0.75 * after
        self._readers: dict[Path, Reader] = {}
        self._waiting: dict[Path, deque[SpooledFrame]] = {}
        self._rows = _PAGE
        self._lock: Lock | None = None
        self.drained = 0
        self._trouble: str | None = None
        self._locked: tuple[UUID, float] | None = None  # what waits for a lock, and since when
        self._told_torn: set[Path] = set()

    async def run(self) -> None:
        """Drain what comes, until cancelled."""
        try:
            while True:
                if self._is_away() or not await self._turn():
                    await anyio.sleep(_PAUSE)
        finally:
            self._leave()

    async def finish(self) -> None:
        """Drain what there is. Raises SpoolOwned when another process drains, or what stops it."""
        self._lock = self._lock or drain_lock(self._path)
        try:
            while await self._pages() or await self._unmark():
                pass
        except BaseException:
            # What was drained is not read again. What stopped the drain says more than a full disk.
            with anyio.CancelScope(shield=True), suppress(OSError):
                await to_thread.run_sync(self._tidy)
            raise
        else:
            await to_thread.run_sync(self._tidy)
        finally:
            self._leave()

    async def _turn(self) -> bool:
        """Drain for a while; whether there may be more."""
        try:
            if not await to_thread.run_sync(self._has_work):
                self._leave()
                return False
            self._lock = self._lock or drain_lock(self._path)
            more = await self._pages() or await self._unmark()
            self._trouble = None
        except SpoolOwned:
            return False
        except Exception as error:  # noqa: BLE001 - what is spooled stays, and is tried again
            reason = explain(error).error
            if reason != self._trouble:
                _log.warning("what is spooled cannot be drained yet", reason=reason)
            self._trouble = reason
            await to_thread.run_sync(self._begin_again)
            return False
        else:
            return more

    def _has_work(self) -> bool:
        """Marks may be gone, if the folder is a copy: what is in it is drained all the same."""
        return bool(self._gates.marked()) or any(
            segments(folder, self._files) for folder in folders(self._path)
        )

    def _begin_again(self) -> None:
        self._rows = max(_FEWEST, self._rows // 2)
        self._forget()
        self._leave()

    def _forget(self) -> None:
        """Forget what was read and not stored: it is read again, from the cursor."""
        with suppress(OSError):
            self._tidy()  # on a full disk, what was drained before makes room
        self._readers.clear()
        self._waiting.clear()

    async def _pages(self) -> bool:
        """Some pages, each read while the one before is stored; whether there may be more."""
        pages = 1
        page = await self._read()
        while not page.is_last and pages < _TIDY:
            page, pages = await self._store_and_read(page.rows), pages + 1
        await self._store(page.rows)
        self._pass_by(page.rows)
        await to_thread.run_sync(self._tidy)
        return not page.is_last

    async def _read(self) -> DrainPage:
        return await to_thread.run_sync(self._next, self._rows)

    async def _store_and_read(self, rows: Sequence[SpooledFrame]) -> DrainPage:
        """Store a page while a thread reads the next; pass the stored one by after both."""
        pages: list[DrainPage] = []
        stored: list[Sequence[SpooledFrame]] = []
        errors: list[Exception] = []

        async def read() -> None:
            pages.append(await self._read())

        async def store() -> None:
            await self._store(rows)
            stored.append(rows)

        async def attempt(step: Callable[[], Awaitable[None]]) -> None:
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - raised when both have ended
                errors.append(error)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(attempt, read)
                group.start_soon(attempt, store)
        finally:  # also where it is cut off: the thread has ended by then
            for each in stored:
                self._pass_by(each)
        if errors:
            raise errors[0]
        return pages[0]

    async def _unmark(self) -> bool:
        """Close the gates of all sources, drain the rest, and unmark them; whether more came."""
        marked = await to_thread.run_sync(self._gates.marked)
        closed = await to_thread.run_sync(self._close, marked) if marked else None
        if closed is None:
            return bool(marked)
        with closed:
            page = await self._read()
            try:
                with anyio.fail_after(self._last):
                    await self._store(page.rows, self._write_last)
            except Exception as error:
                if not is_late(error):
                    raise
                await to_thread.run_sync(self._forget)  # it is a page like others, with open gates
                return True
            self._pass_by(page.rows)
            if not page.is_last:  # not while others wait
                return True
            await to_thread.run_sync(self._take_marks, marked)
            _log.info("what was spooled is in the database", sources=marked, drained=self.drained)
        return await to_thread.run_sync(lambda: bool(self._gates.marked()))

    def _take_marks(self, sources: Sequence[str]) -> None:
        self._tidy()
        for source in sources:
            self._gates.unmark(source)

    def _close(self, sources: Sequence[str]) -> ExitStack | None:
        """None: appends go on for too long."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._gates.closed(sources, self._closing))
            except TimeoutError:
                return None
            return stack.pop_all()

    def _next(self, most: int) -> DrainPage:
        """The oldest receipts of all folders, at most so many, taken.

        Folders are read one after the other, and processes append meanwhile: a receipt that one
        folder has may be newer than one that came to another folder after that was read. So all are
        read twice, and what is newer than all of the first time waits for the next page: whatever
        was answered before the rest came was there the second time.
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
        """Marks that are gone are made again, so that nothing overtakes what is drained."""
        for source in {each.receipt.source for each in rows}:
            if not self._gates.is_marked(source):
                self._gates.mark(source)

    def _fill(self, index: int, folder: Path, most: int) -> None:
        """Read until there is a page, or nothing left that can be read."""
        reader, owned = self._readers[folder], partial(is_owned, folder)
        waiting = self._waiting[folder]
        size = sum(len(each.content) for each in waiting)
        while len(waiting) < most and size < _PAGE_BYTES:
            page = reader.page(most - len(waiting), _PAGE_BYTES - size, owned=owned)
            self._tell_of_torn(reader)
            if not page:
                return
            size += sum(len(content) for _, content in page)
            for number, content in page:
                try:
                    order, receipt = decode(content)
                except UnreadableReceipt as error:
                    self._keep_apart(folder, number, content, str(error))
                else:
                    frame = SpooledFrame(order, number, index, folder, receipt, content)
                    waiting.append(frame)

    def _tell_of_torn(self, reader: Reader) -> None:
        """Once of each: a drain that begins again passes the same ends by again."""
        for each in reader.torn:
            if each.segment not in self._told_torn:
                self._told_torn.add(each.segment)
                _log.warning(
                    "a spooled file ends within a webhook, which is passed by; it was not "
                    "answered, unless something else than its process cut the file",
                    file=str(each.segment),
                    bytes=each.bytes,
                )

    async def _store(self, page: Sequence[SpooledFrame], write: Write | None = None) -> None:
        """Write a page; what the database refuses, or takes too long for, is found by halving.

        write: if requests wait for it; what takes too long then is raised.
        """
        hurried, write = write is not None, write or self._write
        parts = [await self._young(page)]
        while parts:
            part = parts.pop()
            error = await self._tried([each.receipt for each in part], write) if part else None
            if error is None:
                continue
            if is_late(error) and (hurried or not await self._commits()):
                raise error
            if len(part) > 1:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
                if is_late(error):
                    self._rows = max(_FEWEST, middle)
            elif is_late(error):
                await self._took_long(part[0])
            else:
                await self._refused(part[0], error, write)

    def _pass_by(self, page: Sequence[SpooledFrame]) -> None:
        """These are in the database, or set apart. Not while a thread reads."""
        for each in page:
            reader = self._readers.get(each.folder)
            if reader is not None:  # else somebody has taken the folder away
                reader.pass_by(each.number)
        self._rows = min(_PAGE, 2 * self._rows)

    async def _tried(self, receipts: Sequence[Receipt], write: Write) -> Exception | None:
        """Write them: None, or why one of them may be to blame. Raises what is nobody's fault."""
        try:
            await write(receipts)
        except Exception as error:
            if is_refusal(error) or is_late(error):
                return error
            raise
        self.drained += len(receipts)
        return None

    async def _commits(self) -> bool:
        """Whether the database is there, and takes writes: else what is late is an outage."""
        try:
            if self._commit is not None:
                await self._commit()
        except Exception:  # noqa: BLE001 - whatever it is, nobody's receipt is to blame
            return False
        return True

    async def _took_long(self, frame: SpooledFrame) -> None:
        """Give it more time, by itself; if that is too little, it is set apart."""
        error = await self._tried([frame.receipt], self._write_alone)
        if error is not None and is_refusal(error):
            await self._refused(frame, error, self._write_alone)
        elif error is not None:
            if self._may_wait(frame, error) or not await self._commits():
                raise error
            count = plural(len(frame.receipt.events), "event")
            why = ": another transaction has a lock that it needs" if waits_for_lock(error) else ""
            await self._set_apart(frame, f"the database takes too long for it, of {count}{why}")

    def _may_wait(self, frame: SpooledFrame, error: Exception) -> bool:
        """Whether a lock is in its way, which may be free soon: all are tried again then."""
        if not waits_for_lock(error):
            return False
        id_, now = frame.receipt.receipt_id, monotonic()
        if self._locked is None or self._locked[0] != id_:
            self._locked = id_, now
        return now - self._locked[1] < _LOCKED

    async def _refused(self, frame: SpooledFrame, error: Exception, write: Write) -> None:
        """It is a dead letter, as without a spool; if that is refused too, it is set apart."""
        instead = broken_instead(frame.receipt, "the database refuses it")
        late = await self._tried([instead], write) if instead is not None else error
        if late is not None and is_late(late):
            raise late
        if late is not None:
            await self._set_apart(frame, f"the database refuses it: {explain(error).error}")

    async def _set_apart(self, frame: SpooledFrame, reason: str) -> None:
        await to_thread.run_sync(
            self._keep_apart, frame.folder, frame.number, frame.content, reason
        )

    async def _young(self, page: Sequence[SpooledFrame]) -> Sequence[SpooledFrame]:
        """Those that the database would know, if it had them; others are set apart."""
        if self._remembers is None:
            return page
        oldest = datetime.now(UTC) - self._remembers
        young = []
        for each in page:
            if each.receipt.received_at >= oldest:
                young.append(each)
            else:
                await self._set_apart(each, "it is older than the database's memory of receipts")
        return young

    def _keep_apart(self, folder: Path, number: int, content: bytes, reason: str) -> None:
        set_apart(folder, self._files, f"{number:020d}", content, reason)
        _log.error(
            "a spooled webhook is set apart", folder=str(folder), frame=number, reason=reason
        )

    def _tidy(self) -> None:
        for folder, reader in self._readers.items():
            with suppress(FileNotFoundError):  # somebody has taken the folder away
                reader.tidy(owned=partial(is_owned, folder))

    def _leave(self) -> None:
        """Let another process drain."""
        self._readers.clear()
        self._waiting.clear()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
