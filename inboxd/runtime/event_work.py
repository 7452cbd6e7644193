"""Pages of events: one transaction from the claim to the settlement (design section 5).

Owns what a page is for events. Promises (promise 2): the handlers' effects, the commands that they
sent and the settlements commit together or not at all; a page that cannot commit is split until the
event that spoils it stands alone. After a death in the middle of a page, events run alone, each
counted before it runs, until the poison is found (ADR 3). While the server settles one page, the
next is claimed and run on another connection (ADR 7). Known limit: handlers of two pages never run
at the same time; more of that needs more workers.
"""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from inboxd.errors import HandlerCrashed
from inboxd.model.lane import Key, Lane, Lanes
from inboxd.model.outcome import Dead, explain
from inboxd.runtime.event_run import EventRun, Results, Spoiled
from inboxd.runtime.losses import Losses
from inboxd.runtime.outcomes import setback, site_of
from inboxd.runtime.parts import Parts
from inboxd.runtime.processor import Page, Survey
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
    rows: list[Row] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    error: Exception | None = None
    # Whether its connection was lost; afterwards, that is another user's.
    lost: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)


class EventWork:
    """The event processor's work."""

    def __init__(self, parts: Parts, tasks: TaskGroup) -> None:
        """Process the events that the plugins serve; pages are settled in tasks of `tasks`."""
        self._parts = parts
        self._tasks = tasks
        self.run = EventRun(parts)
        self._lanes = Lanes()
        self._most = self.run.limits.page_rows
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
        return sum(len(page.rows) for page in (self._running, self._behind) if page is not None)

    def be_careful(self) -> None:
        """Somebody died, perhaps in the middle of a page: run the next page's events alone."""
        self._careful = self.run.limits.page_rows
        self._lanes.forget()

    def forget(self) -> None:
        """The connection was lost: another server may answer next."""
        self._lanes.forget()

    async def room(self) -> None:
        """A page is run before the next is claimed: there is always room."""

    async def survey(self) -> Survey:
        """Look at every lane from its beginning."""
        async with borrow(self._parts.pool) as connection:
            seen = await events.survey(connection, self._parts.sql)
        served = [s for s in seen if self._serves(s.key)]
        due = self._lanes.sweep(served)
        return Survey(due, min((s.next for s in served if s.next is not None), default=None))

    async def page(self) -> Page:
        """Claim a page, run its events, and have it settled; that may go on during the next."""
        await self.give_back()
        if self.run.stepped_aside:
            self.run.stepped_aside = False
            self._lanes.forget()
        try:
            if self._careful > 0:
                return await self._end_behind() or await self._single()
            return await self._overlapping()
        except Spoiled as spoiled:
            return await self._blame(spoiled)
        except Exception:
            # Before the loop's pause, which may last until the event is no longer kept from others.
            with suppress(Exception), anyio.move_on_after(_SOON):
                await self.give_back()
            raise
        finally:
            self._running = None

    def _serves(self, lane: Key) -> bool:
        topic, type_ = str(lane[0]), str(lane[1])
        served = self._parts.registry.handlers_of(topic, type_)
        return bool(served) and self._parts.controls.allow("topic", topic, type_)

    def _open_lanes(self) -> list[Lane]:
        """The lanes that are not paused."""
        lanes = self._lanes.ordered()
        if self._parts.controls.paused:
            return [lane for lane in lanes if self._serves(lane.key)]
        return lanes

    async def finish(self) -> None:
        """Wait until the last page is settled; if that failed, its events are claimed again."""
        await self._end_behind()

    # ---------------------------------------------------------------------------------- pages

    async def _overlapping(self) -> Page:
        """Claim a page and run it, while the one before it is settled; then have it settled."""
        lanes, most, page = self._open_lanes(), self._most, _Open()
        try:
            opened = await self._begin(page, lanes, most) if lanes else None
        except Exception as error:
            if not page.rows:
                raise
            page.lost = page.connection.is_closed()
            return self._failed(page, error)
        behind, self._behind = self._behind, None if opened is None else page
        if opened is not None:
            self._tasks.start_soon(self._settle, page, opened)
            self._advance(lanes, page.rows[: page.results.rows])
        failed = await self._end(behind)
        if page.results.rows < len(page.rows):
            # The rest is locked until this page has ended: the next claim must not pass it by.
            failed = await self._end_behind() or failed
        return failed or Page(page.results.rows, full=len(page.rows) == most)

    async def _begin(self, page: _Open, lanes: Sequence[Lane], most: int) -> AsyncExitStack | None:
        """Open a page's transaction, claim its rows, run them; what ends it, if there are any."""
        async with AsyncExitStack() as stack:
            page.connection = await stack.enter_async_context(lend(self._parts.pool))
            await stack.enter_async_context(transaction(self._parts.pool, page.connection))
            page.rows = await self._claim(page.connection, lanes, most)
            self._running = page
            await self.run.run(page.connection, page.rows, page.results)
            return stack.pop_all() if page.rows else None

    async def _settle(self, page: _Open, stack: AsyncExitStack) -> None:
        """Write what came of a page, and commit."""
        try:
            async with stack:
                await self.run.write(page.connection, page.results)
            self.run.count(page.results)
            # A page from before the last one that failed says nothing of the halves of that one.
            if len(page.rows) <= self._most:
                self._most = min(2 * self._most, self.run.limits.page_rows)
        except Exception as error:  # noqa: BLE001 - sorted out by the next page
            page.error, page.lost = error, page.connection.is_closed()
        finally:
            page.ended.set()

    async def _end_behind(self) -> Page | None:
        """Wait until no page is being settled; what follows if that failed."""
        behind, self._behind = self._behind, None
        return await self._end(behind)

    async def _end(self, page: _Open | None) -> Page | None:
        if page is None:
            return None
        await page.ended.wait()
        return None if page.error is None else self._failed(page, page.error)

    async def _claim(self, connection: Connection, lanes: Sequence[Lane], most: int) -> list[Row]:
        started = time.monotonic()
        rows = await events.claim(connection, self._parts.sql, lanes, most)
        self._parts.metrics.claim_seconds.labels("event").observe(time.monotonic() - started)
        self._parts.metrics.page_rows.labels("event").observe(len(rows))
        return rows

    def _failed(self, page: _Open, error: Exception) -> Page:
        """The page did not commit. Halve it until the event that spoils it stands alone."""
        self._lanes.forget()
        rows, lost = page.rows, page.lost
        error = page.results.spoiled or error
        if isinstance(error, Spoiled):
            if not (lost and self._losses.excuse(error.row["id"])):
                raise error
            # If it is an outage, the next page will tell by failing to begin.
            _log.warning("a page lost its connection", rows=len(rows), reason=str(error))
            return Page(0, busy=True)
        if lost:
            # An outage, most likely; alone, the next ones will tell.
            self.be_careful()
        if is_passing(error):
            raise error
        _log.warning("page of events did not commit", rows=len(rows), reason=explain(error).error)
        if len(rows) == 1:
            handlers = self._parts.registry.handlers_of(rows[0]["topic"], rows[0]["type"])
            raise Spoiled(rows[0], handlers[0], error)
        self._most = len(rows) // 2
        return Page(0, busy=True)

    async def _blame(self, spoiled: Spoiled) -> Page:
        """Fail the one event, on a connection that works: in an outage nobody is blamed."""
        async with (
            lend(self._parts.pool) as connection,
            transaction(self._parts.pool, connection),
        ):
            row = await events.claim_one(connection, self._parts.sql, spoiled.row["id"])
            if row is not None:
                outcome = self.run.judge(spoiled.error, row, spoiled.handler)
                blame = [setback(outcome, row, self._parts.me.id)]
                await events.set_back(connection, self._parts.sql, blame)
        if row is not None:  # else its lost session may hold it still: it was not even given back
            self._marked = None
        return Page(1)

    async def _single(self) -> Page:
        """Run one event alone, its crash counted beforehand: two transactions."""
        lanes, page = self._open_lanes(), _Open()
        keep = self._parts.settings.database.idle_in_transaction_timeout
        if not lanes:
            return Page(0)
        async with lend(self._parts.pool) as page.connection:
            async with transaction(self._parts.pool, page.connection):
                page.rows = await self._claim(page.connection, lanes, 1)
                if not page.rows:
                    return Page(0)
                row = page.rows[0]
                if row["crashes"] >= self._parts.settings.worker.crash_limit:
                    await self._convict(page.connection, row)
                    return Page(1)
                self._marked = row  # before it commits: the answer may be lost
                await events.mark_crash(page.connection, self._parts.sql, row["id"], keep)
            self._running = page
            try:
                async with transaction(self._parts.pool, page.connection):
                    again = await events.claim_one(page.connection, self._parts.sql, row["id"])
                    if again is not None:
                        await events.unmark_crash(page.connection, self._parts.sql, row)
                        await self.run.run(page.connection, [again], page.results)
                        await self.run.write(page.connection, page.results)
            except Exception as error:  # noqa: BLE001 - sorted out there
                page.lost = page.connection.is_closed()
                return self._failed(page, error)
            finally:
                self._careful -= 1
        self._marked = None
        self._advance(lanes, page.rows)
        self.run.count(page.results)
        return Page(1)

    async def give_back(self) -> None:
        """The run of a marked event ended without its outcome, this process lives: no crash."""
        if self._marked is not None:
            async with borrow(self._parts.pool) as connection:
                await events.unmark_crash(connection, self._parts.sql, self._marked)
            self._marked = None

    async def _convict(self, connection: Connection, row: Row) -> None:
        crashes = row["crashes"]
        error = HandlerCrashed(f"its worker died {crashes} times while it ran this event")
        blame = setback(Dead(explain(error, site_of(row, None))), row, self._parts.me.id)
        blame = replace(blame, crashes=crashes)
        await events.set_back(connection, self._parts.sql, [blame])
        self._parts.metrics.crashes.labels("event").inc(crashes)
        _log.error("event is a dead letter: it kills its worker", event_id=row["event_id"])

    def _advance(self, lanes: Sequence[Lane], rows: Sequence[Row]) -> None:
        for row in rows:
            lanes[row["lane"] - 1].advance(row["run_at"], row["id"])
        for position in {row["lane"] for row in rows}:
            self._lanes.took(lanes[position - 1])
