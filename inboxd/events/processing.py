"""The work of the event processor: it begins pages, and handles failed ones (promise 2).

After a page that did not commit, pages are halved until the event at fault is alone; after a death
during a page, events run alone, each counted as a crash before it runs (ADR 3). While the server
settles a page, the next one runs on another connection (ADR 7). Known limit: handlers of two pages
never run at the same time. *See:* `engine.processor`; `page`; `lone_event`; `chunks.processing`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from inboxd.engine.parts import Parts
from inboxd.engine.processor import Page, Survey, soonest
from inboxd.events.chunks.processing import ChunkCalls, ChunkProcessing
from inboxd.events.chunks.run import ChunkRun
from inboxd.events.horizon import HorizonReader
from inboxd.events.lone_event import LoneEvent
from inboxd.events.page import EventPage, PageFailure
from inboxd.events.page_run import PageRun
from inboxd.events.quarantine import Quarantine
from inboxd.events.relays.processing import RelayProcessing
from inboxd.events.settling import EventSettling
from inboxd.events.sources.sequential import SequentialSource
from inboxd.events.sources.single import SingleSource
from inboxd.events.sources.source import PageSources, look
from inboxd.model.splitting import PageSize
from inboxd.settings import Events as Limits
from inboxd.store.pools import borrow

# Time limit for removing a mark at once; otherwise the next page does it.
_SOON_SECONDS = 1.0
# Interval for starting relays while a page of other events runs.
_RELAYS_SECONDS = 0.1
# Nothing was settled, and the same rows, or half of them, can be claimed at once.
_COME_AGAIN = Page(0, again=0.0)


class EventProcessing:
    def __init__(
        self,
        parts: Parts,
        tasks: TaskGroup,
        wake: Callable[[], None],
        holds_lease: Callable[[], bool],
    ) -> None:
        """holds_lease: whether no worker can take this one for dead. wake: ends the sleep."""
        self._parts = parts
        self._tasks = tasks
        self._wake = wake
        self._settling = settling = EventSettling(parts)
        self._reader = reader = HorizonReader(parts.metrics)
        chunk_run = ChunkRun(parts, settling)
        calls = ChunkCalls(wake, self.be_careful, self._chunk_was_left)
        self._chunks = ChunkProcessing(parts, tasks, reader, chunk_run, settling, calls)
        self._relays = RelayProcessing(parts, tasks, reader, settling, wake, holds_lease)
        self._run = PageRun(parts, settling, chunk_run)
        self._sources = PageSources(SingleSource(parts), SequentialSource(parts, reader))
        self._quarantine = Quarantine(parts, "event")
        self._size = PageSize(settling.limits.page_rows, settling.limits.page_rows)
        # The page that runs, and the page before it while that is being settled.
        self._running: EventPage | None = None
        self._behind: EventPage | None = None

    @property
    def in_flight(self) -> int:
        pages = {self._running, self._behind} - {None}
        beside = self._chunks.in_flight + self._relays.in_flight
        return beside + sum(len(page.rows) for page in pages if page is not None)

    @property
    def holds_up_the_loop(self) -> bool:
        """Whether handlers run that block the processor's loop; relays do not block it."""
        return self.in_flight > self._relays.in_flight

    @property
    def is_busy(self) -> bool:
        return self._chunks.is_visiting or self._relays.is_busy or bool(self.in_flight)

    def be_careful(self) -> None:
        """Run the next events alone: a worker has died, perhaps during a page."""
        self._quarantine.begin(self._settling.limits.page_rows)
        self._chunks.be_careful()
        self._rewind()

    def forget(self) -> None:
        self._rewind()
        self._chunks.forget()
        self._relays.forget()
        self._reader.forget()

    def reload(self, limits: Limits) -> None:
        self._settling.reload(limits)
        self._size.most = limits.page_rows

    async def room(self, within: float | None = None) -> None:
        """Do nothing: there is always room, since a page has run before the next claim."""

    async def survey(self) -> Survey:
        async with borrow(self._parts.pool) as session:
            looked = await look(session, self._reader)
            seen = [await self._sources.survey(session, looked)]
            seen += [await self._chunks.survey(session, looked)]
            return Survey.of([*seen, await self._relays.survey(session, looked)])

    async def page(self) -> Page:
        """The settlement may overlap the next page. Chunks and relays run in their own tasks."""
        if self._parts.exclusive_run.wanted:
            return await self._rest()
        begun = self._chunks.start() + self._relays.start()
        page = await self._page()
        return replace(page, rows=page.rows + begun) if begun else page

    async def finish(self) -> None:
        """Wait until the last page is settled; if that failed, its events are claimed again."""
        try:
            await self._end_behind()
        finally:
            await self._chunks.finish()
            await self._relays.finish()

    async def tend_relays(self) -> None:
        """Start relays while handlers keep the processor busy, until cancelled."""
        while True:
            await anyio.sleep(_RELAYS_SECONDS)
            if self._running is not None and not self._parts.exclusive_run.wanted:
                self._relays.start()

    def stop(self) -> None:
        """Publish no more, since the worker drains."""
        self._relays.stop()

    def suspend(self) -> None:
        """Publish nothing: without a lease, another worker may publish the same events."""
        self._relays.suspend()

    def resume(self) -> None:
        self._relays.resume()

    async def give_back(self) -> None:
        """Remove the marks of runs that ended without an outcome; close brokers' connections."""
        await self._quarantine.give_back()
        await self._chunks.give_back()
        await self._relays.close()

    async def _rest(self) -> Page:
        """Wait until everything that was begun has ended, since a command must run alone here."""
        await self._quarantine.give_back()
        failed = await self._end_behind()
        if failed is None and not (self._chunks.is_visiting or self._relays.is_busy):
            self._parts.exclusive_run.rest()
        return failed or Page(0, again=_SOON_SECONDS)

    def _chunk_was_left(self) -> None:
        """Wake the processor, since events were left to a peer and the cursors are forgotten."""
        self._rewind()
        self._wake()

    async def _page(self) -> Page:
        await self._quarantine.give_back()
        try:
            if self._quarantine.is_on:
                return await self._end_behind() or await self._alone()
            return await self._overlapping()
        except Exception:
            # At once: until then the mark keeps the event from other workers, perhaps longer than
            # the loop's pause.
            with suppress(Exception), anyio.move_on_after(_SOON_SECONDS):
                await self._quarantine.give_back()
            raise
        finally:
            self._running = None

    async def _overlapping(self) -> Page:
        """Claim and run a page while the page before it is settled; then start its settlement."""
        page, failure = await self._begin(self._size.now)
        if not page.rows and self._behind is not None and self._behind.is_exclusive:
            # The page that is being settled has all buckets: claim again after its end.
            if failed := await self._end_behind():
                return failed
            page, failure = await self._begin(self._size.now)
        if failure is not None:
            return self._after(failure)
        behind, self._behind = self._behind, page if page.rows else None
        if page.rows:
            self._tasks.start_soon(page.settle)
        failed = await self._end(behind)
        if page.is_cut_short:
            # Rows that did not run are locked until this page has ended: claim only after that.
            failed = await self._end_behind() or failed
        if page.results.left_to_peer:
            self._rewind()
        # Events that are set aside are no progress, unless other events may be behind them.
        rows = page.results.met - (0 if page.is_full else page.results.aside)
        return failed or Page(rows, full=page.is_full, again=self._again())

    async def _begin(self, most: int) -> tuple[EventPage, PageFailure | None]:
        page = self._running = EventPage(self._parts, self._run, self._settling)
        return page, await page.begin(self._sources, most)

    async def _alone(self) -> Page:
        if not self._sources.are_known():
            return Page(0)
        page = self._running = LoneEvent(
            self._parts, self._run, self._settling, self._sources, self._quarantine
        )
        failure = await page.run_alone()
        if page.rows and page.ran:
            self._quarantine.one_less()
        if failure is not None:
            return self._after(failure)
        if not page.ran or page.results.left_to_peer:
            self._rewind()
        return Page(1) if page.rows else Page(0, again=self._again())

    async def _end_behind(self) -> Page | None:
        behind, self._behind = self._behind, None
        return await self._end(behind)

    async def _end(self, page: EventPage | None) -> Page | None:
        if page is None:
            return None
        failure = await page.end()
        if failure is not None:
            return self._after(failure)
        self._size.went_well(len(page.rows))
        return None

    def _after(self, failure: PageFailure) -> Page:
        """Continue after a page that did not commit. Raises the outage."""
        self._rewind()
        if failure.settled is not None:
            self._quarantine.settled(failure.settled)
        if failure.broken:
            # Most likely an outage; if not, running events alone shows the one at fault.
            self.be_careful()
        if failure.outage is not None:
            raise failure.outage
        if failure.most is not None:
            self._size.now = failure.most
        return Page(1) if failure.blamed else _COME_AGAIN

    def _rewind(self) -> None:
        self._sources.forget()

    def _again(self) -> float | None:
        """Seconds until rows that could not be claimed now may be claimable."""
        beside = (self._chunks.again, self._relays.again, self._run.aside.again)
        return soonest([self._sources.again, *beside])
