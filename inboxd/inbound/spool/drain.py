"""Drains the spooled receipts of this host into the database, oldest first, over all its folders.

Promises: a lock gives the drain to one process of the host; a page is passed after its commit, so a
crash repeats it, and the database recognizes receipts that it has; receipts that the database
refuses, or that are older than its memory, are set apart unchanged, and shown; a source is unmarked
while appends for it are locked out. A page that takes too long although the database commits is
halved; a single receipt then gets more time once, and is set apart. A receipt that waits for
another transaction's lock gets minutes: most locks are free by then. The event loop and the reading
thread share no data while both work: data that the thread changes is passed to it, or not used
before it ends. Known limit: while the last page of a source is written, its new receipts wait.
*See:* `pages.py`, which reads the pages.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NamedTuple
from uuid import UUID

import anyio
from anyio import to_thread

from inboxd.errors import SpoolOwned
from inboxd.inbound.commits import Commit, commits
from inboxd.inbound.group_commit import Write
from inboxd.inbound.sources import broken_instead
from inboxd.inbound.spool.files import Files
from inboxd.inbound.spool.folder import Lock, drain_lock
from inboxd.inbound.spool.markers import Gates
from inboxd.inbound.spool.pages import DrainPage, SpooledFrame, SpooledPages
from inboxd.model.outcome import explain
from inboxd.model.receipt import Receipt
from inboxd.model.splitting import PageSize, Pieces
from inboxd.model.wording import plural
from inboxd.store.connections import is_late, is_refusal, waits_for_lock
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE_ROWS = 500
_FEWEST_ROWS = 10  # smallest page, in rows, when larger pages take the database too long
_TIDY_AFTER_PAGES = 20  # pages between two removals of drained segments
_PAUSE_SECONDS = 0.2  # seconds between two looks for work, and after a failure
_LOCKED_SECONDS = 300.0  # seconds for which a receipt may block later ones by a lock


class DrainWays(NamedTuple):
    """last: within half of `after`: requests wait at closed gates. alone: for one slow receipt."""

    last: Write | None = None
    alone: Write | None = None
    commit: Commit | None = None


_ONE_WAY = DrainWays()


class Drain:
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
        """remembers: how long the database knows a receipt; an older one might be written twice."""
        self._path = path
        self._gates = gates
        self._spooled = SpooledPages(path, files, gates)
        self._write = write
        self._remembers = remembers  # None: for ever
        self._is_away = is_away
        self._write_last, self._write_alone = ways.last or write, ways.alone or write
        self._commits = partial(commits, ways.commit)
        self._closing, self._last = after / 4, 0.75 * after
        self._size = PageSize(_PAGE_ROWS, _PAGE_ROWS, _FEWEST_ROWS)
        self._lock: Lock | None = None
        self.drained = 0
        self._trouble: str | None = None
        self._locked: tuple[UUID, float] | None = None  # waits for a lock: receipt, since

    async def run(self) -> None:
        try:
            while True:
                if self._is_away() or not await self._turn():
                    await anyio.sleep(_PAUSE_SECONDS)
        finally:
            self._leave()

    async def finish(self) -> None:
        """Drain everything. Raises SpoolOwned if another process drains, or the drain's error."""
        self._lock = self._lock or drain_lock(self._path)
        try:
            while await self._pages() or await self._unmark():
                pass
        except BaseException:
            # Drained receipts must not be read again. The drain's error matters more than OSError.
            with anyio.CancelScope(shield=True), suppress(OSError):
                await to_thread.run_sync(self._spooled.tidy)
            raise
        else:
            await to_thread.run_sync(self._spooled.tidy)
        finally:
            self._leave()

    async def _turn(self) -> bool:
        """Drain some pages; returns whether more receipts may wait."""
        try:
            if not await to_thread.run_sync(self._spooled.are_there):
                self._leave()
                return False
            self._lock = self._lock or drain_lock(self._path)
            more = await self._pages() or await self._unmark()
            self._trouble = None
        except SpoolOwned:
            return False
        except Exception as error:  # noqa: BLE001 - the receipts stay, and are tried again
            reason = explain(error).error
            if reason != self._trouble:
                _log.warning("the spool cannot be drained yet", reason=reason)
            self._trouble = reason
            await to_thread.run_sync(self._begin_again)
            return False
        else:
            return more

    def _begin_again(self) -> None:
        self._size.failed(self._size.now)
        self._forget()
        self._leave()

    def _forget(self) -> None:
        """Forget receipts that were read and not stored; they are read again, from the cursor."""
        with suppress(OSError):
            self._spooled.tidy()  # on a full disk, removing drained segments makes room
        self._spooled.forget()

    async def _pages(self) -> bool:
        """Store some pages, each while the next is read; returns whether more may wait."""
        pages = 1
        page = await self._read()
        while not page.is_last and pages < _TIDY_AFTER_PAGES:
            page, pages = await self._store_and_read(page.rows), pages + 1
        await self._store(page.rows)
        self._pass_by(page.rows)
        await to_thread.run_sync(self._spooled.tidy)
        return not page.is_last

    async def _read(self) -> DrainPage:
        return await to_thread.run_sync(self._spooled.next, self._size.now)

    async def _store_and_read(self, rows: Sequence[SpooledFrame]) -> DrainPage:
        """Store a page while a thread reads the next; pass the stored one when both have ended."""
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
        finally:  # also after a cancellation: the thread has ended by then
            for each in stored:
                self._pass_by(each)
        if errors:
            raise errors[0]
        return pages[0]

    async def _unmark(self) -> bool:
        """Close all gates, drain the rest, and remove the marks; returns whether more came."""
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
                await to_thread.run_sync(self._forget)  # as a normal page, with open gates
                return True
            self._pass_by(page.rows)
            if not page.is_last:  # requests must wait for one page at most
                return True
            await to_thread.run_sync(self._take_marks, marked)
            _log.info(
                "all spooled webhooks are in the database", sources=marked, drained=self.drained
            )
        return await to_thread.run_sync(lambda: bool(self._gates.marked()))

    def _take_marks(self, sources: Sequence[str]) -> None:
        self._spooled.tidy()
        for source in sources:
            self._gates.unmark(source)

    def _close(self, sources: Sequence[str]) -> ExitStack | None:
        """Close the gates; None: appends hold them too long."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._gates.closed(sources, self._closing))
            except TimeoutError:
                return None
            return stack.pop_all()

    async def _store(self, page: Sequence[SpooledFrame], write: Write | None = None) -> None:
        """Halve a page to find the receipt at fault. write: requests wait: a timeout is raised."""
        hurried, write = write is not None, write or self._write
        pieces = Pieces(await self._young(page))
        for part in pieces:
            error = await self._try_write([each.receipt for each in part], write) if part else None
            if error is None:
                continue
            if is_late(error) and (hurried or not await self._commits()):
                raise error
            if pieces.halve(part):
                if is_late(error):
                    self._size.failed(len(part))
            elif is_late(error):
                await self._give_more_time(part[0])
            else:
                await self._refused(part[0], error, write)

    def _pass_by(self, page: Sequence[SpooledFrame]) -> None:
        """Must not be called while a thread reads."""
        self._spooled.pass_by(page)
        self._size.went_well()

    async def _try_write(self, receipts: Sequence[Receipt], write: Write) -> Exception | None:
        """Write receipts; returns a refusal or a timeout. Raises other errors."""
        try:
            await write(receipts)
        except Exception as error:
            if is_refusal(error) or is_late(error):
                return error
            raise
        self.drained += len(receipts)
        return None

    async def _give_more_time(self, frame: SpooledFrame) -> None:
        error = await self._try_write([frame.receipt], self._write_alone)
        if error is not None and is_refusal(error):
            await self._refused(frame, error, self._write_alone)
        elif error is not None:
            if self._may_wait(frame, error) or not await self._commits():
                raise error
            count = plural(len(frame.receipt.events), "event")
            why = ": another transaction has a lock that it needs" if waits_for_lock(error) else ""
            await self._set_apart(frame, f"the database takes too long for its {count}{why}")

    def _may_wait(self, frame: SpooledFrame, error: Exception) -> bool:
        """Whether to try all receipts again: a lock that may be free soon blocks the receipt."""
        if not waits_for_lock(error):
            return False
        id_, now = frame.receipt.receipt_id, monotonic()
        if self._locked is None or self._locked[0] != id_:
            self._locked = id_, now
        return now - self._locked[1] < _LOCKED_SECONDS

    async def _refused(self, frame: SpooledFrame, error: Exception, write: Write) -> None:
        """Write a dead letter instead, as without a spool; if that is refused, set it apart."""
        instead = broken_instead(frame.receipt, "the database refuses it")
        late = await self._try_write([instead], write) if instead is not None else error
        if late is not None and is_late(late):
            raise late
        if late is not None:
            await self._set_apart(frame, f"the database refuses it: {explain(error).error}")

    async def _set_apart(self, frame: SpooledFrame, reason: str) -> None:
        await to_thread.run_sync(
            self._spooled.keep_apart, frame.folder, frame.number, frame.content, reason
        )

    async def _young(self, page: Sequence[SpooledFrame]) -> Sequence[SpooledFrame]:
        """Receipts that are new enough for the database to recognize; older ones are set apart."""
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

    def _leave(self) -> None:
        self._spooled.forget()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
