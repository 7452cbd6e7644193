"""Pages of events: one transaction from the claim to the settlement (design section 5).

Owns what a page is for events. Promises (promise 2): the handlers' effects, the commands that they
sent and the settlements commit together or not at all; a page that cannot commit is split until the
event that spoils it stands alone. After a death in the middle of a page, events run alone, each
counted before it runs, until the poison is found (ADR 3). Known limit: a page is one connection's
work; more pages at a time need more workers.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from inboxd.errors import HandlerCrashed
from inboxd.model.lane import Lane, Lanes
from inboxd.model.outcome import Dead, explain
from inboxd.runtime.event_run import EventRun, Results, Spoiled
from inboxd.runtime.losses import Losses
from inboxd.runtime.outcomes import setback
from inboxd.runtime.parts import Parts
from inboxd.runtime.processor import Page, Survey
from inboxd.store import events
from inboxd.store.connections import Connection, Row, is_closed, is_passing
from inboxd.store.pools import borrow, lend, transaction
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class EventWork:
    """The event processor's work."""

    def __init__(self, parts: Parts) -> None:
        """Process the events that the plugins serve."""
        self._parts = parts
        self.run = EventRun(parts)
        self._lanes = Lanes()
        self._most = self.run.limits.page_rows
        self._careful = 0
        # The event that runs alone, while its crash is counted beforehand.
        self._marked: Row | None = None
        self.in_flight = 0
        self._losses = Losses()

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
        served = [s for s in seen if s.key[1] in self._parts.registry.events]
        due = self._lanes.sweep(served)
        return Survey(due, min((s.next for s in served if s.next is not None), default=None))

    async def page(self) -> Page:
        """Claim a page, run its events, settle them, commit."""
        await self.give_back()
        lanes = self._lanes.ordered()
        if not lanes:
            return Page(0)
        try:
            async with lend(self._parts.pool) as connection:
                if self._careful > 0:
                    return await self._page_of_one(connection, lanes)
                return await self._page(connection, lanes)
        except Spoiled as spoiled:
            return await self._blame(spoiled)

    # ---------------------------------------------------------------------------------- pages

    async def _page(self, connection: Connection, lanes: Sequence[Lane]) -> Page:
        most, rows, results = self._most, list[Row](), Results()
        try:
            async with transaction(self._parts.pool, connection):
                rows = await self._claim(connection, lanes, most)
                if not rows:
                    return Page(0)
                await self.run.run(connection, rows, results)
                await self.run.write(connection, results)
        except Exception as error:
            if not rows:
                raise
            return self._failed(connection, rows, results.spoiled or error)
        finally:
            self.in_flight = 0
        self._advance(lanes, rows[: results.rows])
        self.run.count(results)
        self._most = min(2 * most, self.run.limits.page_rows)
        return Page(results.rows, full=len(rows) == most)

    async def _claim(self, connection: Connection, lanes: Sequence[Lane], most: int) -> list[Row]:
        started = time.monotonic()
        rows = await events.claim(connection, self._parts.sql, lanes, most)
        self._parts.metrics.claim_seconds.labels("event").observe(time.monotonic() - started)
        self._parts.metrics.page_rows.labels("event").observe(len(rows))
        self.in_flight = len(rows)
        return rows

    def _failed(self, connection: Connection, rows: list[Row], error: Exception) -> Page:
        """The page did not commit. Halve it until the event that spoils it stands alone."""
        self._lanes.forget()
        if isinstance(error, Spoiled):
            if not (is_closed(connection) and self._losses.excuse(error.row["id"])):
                raise error
            # If it is an outage, the next page will tell by failing to begin.
            _log.warning("a page lost its connection", rows=len(rows), reason=str(error))
            return Page(0, busy=True)
        if is_closed(connection):
            # An outage, most likely; alone, the next ones will tell.
            self.be_careful()
        if is_passing(error):
            raise error
        _log.warning("page of events did not commit", rows=len(rows), reason=explain(error).error)
        if len(rows) == 1:
            handlers = self._parts.registry.events[rows[0]["type"]]
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
        self._marked = None
        return Page(1)

    async def _page_of_one(self, connection: Connection, lanes: Sequence[Lane]) -> Page:
        """Run one event alone, its crash counted beforehand: two transactions."""
        keep = self._parts.settings.database.idle_in_transaction_timeout
        async with transaction(self._parts.pool, connection):
            claimed = await self._claim(connection, lanes, 1)
            if not claimed:
                return Page(0)
            row = claimed[0]
            if row["crashes"] >= self._parts.settings.worker.crash_limit:
                await self._convict(connection, row)
                return Page(1)
            self._marked = row  # before it commits: the answer may be lost
            await events.mark_crash(connection, self._parts.sql, row["id"], keep)
        results = Results()
        try:
            async with transaction(self._parts.pool, connection):
                again = await events.claim_one(connection, self._parts.sql, row["id"])
                if again is not None:
                    await events.unmark_crash(connection, self._parts.sql, row)
                    await self.run.run(connection, [again], results)
                    await self.run.write(connection, results)
        except Exception as error:  # noqa: BLE001 - sorted out there
            return self._failed(connection, claimed, results.spoiled or error)
        finally:
            self._careful -= 1
            self.in_flight = 0
        self._marked = None
        self._advance(lanes, claimed)
        self.run.count(results)
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
        blame = setback(Dead(explain(error)), row, self._parts.me.id)
        blame = replace(blame, crashes=crashes)
        await events.set_back(connection, self._parts.sql, [blame])
        self._parts.metrics.crashes.labels("event").inc(crashes)
        _log.error("event is a dead letter: it kills its worker", event_id=row["event_id"])

    def _advance(self, lanes: Sequence[Lane], rows: Sequence[Row]) -> None:
        for row in rows:
            lanes[row["lane"] - 1].advance(row["run_at"], row["id"])
        for position in {row["lane"] for row in rows}:
            self._lanes.took(lanes[position - 1])
