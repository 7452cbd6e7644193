"""Pages of events: one transaction from the claim to the settlement (design section 5).

Owns what a page is for events, wherever they come from (`event_source`). Promises (promise 2): the
handlers' effects, the commands that they sent and the settlements commit together or not at all; a
page that cannot commit is split until the event that spoils it stands alone. After a death in the
middle of a page, events run alone, each counted before it runs, until the poison is found (ADR 3).
While the server settles one page, the next is claimed and run on another connection (ADR 7). Known
limit: handlers of two pages never run at the same time; more of that needs more workers.
"""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from inboxd.engine.losses import Losses
from inboxd.engine.outcomes import setback, site_of
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Page, Survey
from inboxd.errors import DedupKeyHeld, HandlerCrashed
from inboxd.events.horizon import HorizonReader
from inboxd.events.lists.processing import ListCalls, ListProcessing
from inboxd.events.lists.run import ListRun
from inboxd.events.page_order import PageOrder
from inboxd.events.page_run import PageRun
from inboxd.events.settling import EventSettling, Results, Spoiled
from inboxd.events.sources.line_look import look
from inboxd.events.sources.sequential import SequentialSource
from inboxd.events.sources.single import SingleSource
from inboxd.events.sources.source import Claim, Source
from inboxd.model.outcome import Dead, explain
from inboxd.settings import Events as Limits
from inboxd.store import events
from inboxd.store.connections import Connection, Row, is_passing
from inboxd.store.pools import borrow, lend, transaction
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds for taking back a crash at once; otherwise the next page does.
_SOON = 1.0


@dataclass(slots=True)
class _Open:
    """A page whose transaction is open: what was claimed, what came of it, what went wrong."""

    connection: Connection = field(init=False)
    source: Source = field(init=False)
    claim: Claim = field(default_factory=lambda: Claim([]))
    results: Results = field(default_factory=Results)
    error: Exception | None = None
    # Whether its connection was lost; afterwards, that is another user's.
    lost: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def rows(self) -> list[Row]:
        """What was claimed."""
        return self.claim.rows

    def before(self, row: Row) -> list[Row]:
        """What was claimed before this row."""
        ids = [each["id"] for each in self.rows]
        return self.rows[: ids.index(row["id"])]

    def emitters(self) -> list[Row]:
        """Those whose handlers emitted events."""
        ids = {parent.id for _, parent in self.results.emitted}
        return [row for row in self.rows if row["id"] in ids]


class EventProcessing:
    """The event processor's work."""

    def __init__(self, parts: Parts, tasks: TaskGroup, wake: Callable[[], None]) -> None:
        """Process the events that the plugins serve; pages are settled in tasks of `tasks`.

        wake: ends the processor's sleep.
        """
        self._parts = parts
        self._tasks = tasks
        self._settling = settling = EventSettling(parts)
        self._reader = reader = HorizonReader(parts.sql, parts.metrics)
        list_run = ListRun(parts, settling)
        calls = ListCalls(wake, self.be_careful, self._rewind)
        self._lists = ListProcessing(parts, tasks, reader, list_run, settling, calls)
        self._run = PageRun(parts, settling, list_run)
        # Who is asked first had the last page the longest ago.
        self._sources: list[Source] = [SingleSource(parts), SequentialSource(parts, reader)]
        self._most = self._settling.limits.page_rows
        self._careful = 0
        # The event that runs alone, while its crash is counted beforehand.
        self._marked: Row | None = None
        # The page that runs, and the one before it while that is being settled.
        self._running: _Open | None = None
        self._behind: _Open | None = None
        self._losses = Losses()

    @property
    def in_flight(self) -> int:
        """Events that are claimed and not settled yet."""
        pages = (self._running, self._behind)
        return self._lists.in_flight + sum(len(page.rows) for page in pages if page is not None)

    def be_careful(self) -> None:
        """Somebody died, perhaps in the middle of a page: run the next page's events alone."""
        self._careful = self._settling.limits.page_rows
        self._lists.be_careful()
        self._rewind()

    def forget(self) -> None:
        """The connection was lost: another server may answer next."""
        self._rewind()
        self._lists.forget()
        self._reader.forget()

    def reload(self, limits: Limits) -> None:
        """Take over what may change while running."""
        self._settling.reload(limits)

    async def room(self, within: float | None = None) -> None:
        """A page is run before the next is claimed: there is always room."""

    async def survey(self) -> Survey:
        """Look at everything from its beginning."""
        async with borrow(self._parts.pool) as connection:
            looked = await look(connection, self._parts.sql, self._reader)
            seen = [await source.survey(connection, looked) for source in self._sources]
            seen.append(await self._lists.survey(connection, looked))
        nearest = min((each.next for each in seen if each.next is not None), default=None)
        return Survey(any(each.due for each in seen), nearest)

    async def page(self) -> Page:
        """Claim a page, run its events, and have it settled; that may go on during the next.

        Lists run in tasks of their own, and are only begun here.
        """
        if self._parts.solitude.wanted:
            return await self._rest()
        begun = self._lists.start()
        page = await self._page()
        return replace(page, rows=page.rows + begun) if begun else page

    async def _rest(self) -> Page:
        """A command is to run alone here: what was begun ends, and nothing begins meanwhile."""
        await self._give_back()
        failed = await self._end_behind()
        if failed is None and not self._lists.is_visiting:
            self._parts.solitude.rest()
        return failed or Page(0, again=_SOON)

    async def _page(self) -> Page:
        await self._give_back()
        try:
            if self._careful > 0:
                return await self._end_behind() or await self._single()
            return await self._overlapping()
        except Exception:
            # Before the loop's pause, which may last until the event is no longer kept from others.
            with suppress(Exception), anyio.move_on_after(_SOON):
                await self._give_back()
            raise
        finally:
            self._running = None

    async def finish(self) -> None:
        """Wait until the last page is settled; if that failed, its events are claimed again."""
        await self._end_behind()
        await self._lists.finish()

    async def give_back(self) -> None:
        """Take back the crashes that were counted for runs that ended without an outcome."""
        await self._give_back()
        await self._lists.give_back()

    def _rewind(self) -> None:
        for source in self._sources:
            source.forget()

    # ---------------------------------------------------------------------------------- pages

    async def _overlapping(self) -> Page:
        """Claim a page and run it, while the one before it is settled; then have it settled."""
        most, page = self._most, _Open()
        try:
            opened = await self._begin(page, most)
            if opened is None and self._behind is not None and self._behind.source.exclusive:
                # What that page has is nobody's before it has ended: look once more then.
                if failed := await self._end_behind():
                    return failed
                opened = await self._begin(page, most)
        except Exception as error:
            if not page.rows:
                raise
            page.lost = page.connection.is_closed()
            return await self._failed(page, error)
        behind, self._behind = self._behind, None if opened is None else page
        if opened is not None:
            page.source.ran(page.claim, page.results.met)
            self._tasks.start_soon(self._settle, page, opened)
        failed = await self._end(behind)
        if page.results.met < len(page.rows):
            # The rest is locked until this page has ended: the next claim must not pass it by.
            failed = await self._end_behind() or failed
        if page.results.left_to_peer:
            self._rewind()
        return failed or Page(page.results.met, full=page.claim.full, again=self._again())

    async def _begin(self, page: _Open, most: int) -> AsyncExitStack | None:
        """Open a page's transaction, claim its rows, run them; what ends it, if there are any."""
        if not any(source.is_known() for source in self._sources):
            return None
        async with AsyncExitStack() as stack:
            page.connection = await stack.enter_async_context(lend(self._parts.pool))
            await stack.enter_async_context(transaction(self._parts.pool, page.connection))
            await self._claim(page, most)
            self._running = page
            await self._run.run(page.connection, page.rows, page.results)
            return stack.pop_all() if page.rows else None

    async def _claim(self, page: _Open, most: int) -> None:
        """Ask the sources in turn, until one has something."""
        started = time.monotonic()
        for source in [each for each in self._sources if each.is_known()]:
            page.source, page.claim = source, await source.claim(page.connection, most)
            if page.rows:
                page.results.order = page.claim.order
                self._sources.remove(source)
                self._sources.append(source)
                break
        self._parts.metrics.claim_seconds.labels("event").observe(time.monotonic() - started)
        self._parts.metrics.page_rows.labels("event").observe(len(page.rows))

    def _again(self) -> float | None:
        """When rows that could not be had now may be had."""
        waits = [self._lists.again, *(source.again for source in self._sources)]
        return min((each for each in waits if each is not None), default=None)

    async def _settle(self, page: _Open, stack: AsyncExitStack) -> None:
        """Write what came of a page, and commit."""
        try:
            async with stack:
                await self._settling.write(page.connection, page.results)
            self._settling.count(page.results)
            # A page from before the last one that failed says nothing of the halves of that one.
            if len(page.rows) <= self._most:
                self._most = min(2 * self._most, self._settling.limits.page_rows)
        except Exception as error:  # noqa: BLE001 - sorted out by the next page
            page.error, page.lost = error, page.connection.is_closed()
        finally:
            page.source.ended(page.claim, page.results.met, committed=page.error is None)
            page.ended.set()

    async def _end_behind(self) -> Page | None:
        """Wait until no page is being settled; what follows if that failed."""
        behind, self._behind = self._behind, None
        return await self._end(behind)

    async def _end(self, page: _Open | None) -> Page | None:
        if page is None:
            return None
        await page.ended.wait()
        return None if page.error is None else await self._failed(page, page.error)

    # ------------------------------------------------------------------------ pages that fail

    async def _failed(self, page: _Open, error: Exception) -> Page:
        """The page did not commit. Halve it until the event that spoils it stands alone."""
        self._rewind()
        rows, lost = page.rows, page.lost
        error = page.results.spoiled or error
        if isinstance(error, Spoiled):
            if not (lost and self._losses.excuse(error.row["id"])):
                return await self._blame(page, error)
            # If it is an outage, the next page will tell by failing to begin.
            _log.warning("a page lost its connection", rows=len(rows), reason=str(error))
            return Page(0, busy=True)
        if lost:
            # An outage, most likely; alone, the next ones will tell.
            self.be_careful()
        if is_passing(error):
            raise error
        _log.warning("page of events did not commit", rows=len(rows), reason=explain(error).error)
        suspects = page.emitters() if isinstance(error, DedupKeyHeld) else rows
        if len(suspects) == 1:
            row = suspects[0]
            handlers = self._parts.registry.handlers_of(row["topic"], row["type"])
            # A list of one has none: its topic's rule is for it.
            return await self._blame(page, Spoiled(row, next(iter(handlers), None), error))
        self._most = len(page.before(suspects[len(suspects) // 2]))
        return Page(0, busy=True)

    async def _blame(self, page: _Open, spoiled: Spoiled) -> Page:
        """Fail the one event, on a connection that works: in an outage nobody is blamed."""
        async with (
            lend(self._parts.pool) as connection,
            transaction(self._parts.pool, connection),
        ):
            await page.source.hold(connection, spoiled.row, page.before(spoiled.row))
            row = await events.claim_one(connection, self._parts.sql, spoiled.row["id"])
            if row is not None:
                outcome = self._settling.judge(spoiled.error, row, spoiled.handler)
                results = Results(order=self._afresh(page))
                self._settling.set_back(row, outcome, results)
                await self._settling.write(connection, results)
        if row is not None:  # else its lost session may hold it still: it was not even given back
            self._marked = None
        return Page(1)

    def _afresh(self, page: _Open) -> PageOrder | None:
        """No line stands still in a transaction that has just begun."""
        return None if page.claim.order is None else PageOrder(self._parts)

    async def _single(self) -> Page:
        """Run one event alone, its crash counted beforehand: two transactions."""
        page = _Open()
        if not any(source.is_known() for source in self._sources):
            return Page(0)
        async with lend(self._parts.pool) as page.connection:
            async with transaction(self._parts.pool, page.connection):
                await self._claim(page, 1)
                if not page.rows:
                    return Page(0, again=self._again())
                row, runs = page.rows[0], await self._mark(page)
            page.source.ran(page.claim, 1)
            page.source.ended(page.claim, 1, committed=True)
            self._careful -= 1
            if not runs:
                return Page(1)
            self._running = page
            ran = False
            try:
                async with transaction(self._parts.pool, page.connection):
                    ran = await self._run_marked(page, row)
            except Exception as error:  # noqa: BLE001 - sorted out below
                page.error, page.lost = error, page.connection.is_closed()
        if page.error is not None:
            return await self._failed(page, page.error)
        if ran:
            self._marked = None
        else:  # its mark is still to be taken back; then it is looked for again
            self._careful += 1
        if page.results.left_to_peer or not ran:
            self._rewind()
        self._settling.count(page.results)
        return Page(1)

    async def _run_marked(self, page: _Open, row: Row) -> bool:
        """Run an event that was marked, in the transaction that takes the mark back.

        False: somebody else has it. Another worker's claim that began before the mark was there
        locks the row as it passes it by, and keeps it until it has ended.
        """
        connection = page.connection
        await page.source.hold(connection, row, ())
        page.results = Results(order=self._afresh(page))
        again = await events.claim_one(connection, self._parts.sql, row["id"])
        if again is not None:
            await events.unmark_crash(connection, self._parts.sql, row)
            await self._run.run(connection, [again], page.results)
            await self._settling.write(connection, page.results)
        return again is not None

    async def _mark(self, page: _Open) -> bool:
        """Count a crash of the event that is to run alone; False: it does not run now.

        In a line it is filed, so that the line stands still until it has run.
        """
        row, order = page.rows[0], page.results.order
        keep = self._parts.settings.database.idle_in_transaction_timeout
        runs = order is None or order.may_run(row)
        if runs and row["crashes"] >= self._parts.settings.worker.crash_limit:
            self._convict(row, page.results)
            runs = False
        elif runs:
            self._marked = row  # before it commits: the answer may be lost
            await events.mark_crash(page.connection, self._parts.sql, row["id"], keep)
            if order is not None:
                order.stop(row)
        await self._settling.write(page.connection, page.results)
        return runs

    async def _give_back(self) -> None:
        """The run of a marked event ended without its outcome, this process lives: no crash."""
        if self._marked is not None:
            async with borrow(self._parts.pool) as connection:
                await events.unmark_crash(connection, self._parts.sql, self._marked)
            self._marked = None

    def _convict(self, row: Row, results: Results) -> None:
        crashes = row["crashes"]
        error = HandlerCrashed(f"its worker died {crashes} times while it ran this event")
        dead = Dead(explain(error, site_of(row, None)))
        results.setbacks.append(replace(setback(dead, row, self._parts.me), crashes=crashes))
        if results.order is not None:
            results.order.set_back(row, dead=True)
        self._parts.metrics.crashes.labels("event").inc(crashes)
        _log.error("event is a dead letter: it kills its worker", event_id=row["event_id"])
