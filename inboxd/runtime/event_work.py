"""Pages of events: one transaction from the claim to the settlement (design section 5).

Owns what a page is for events. Promises (promise 2): the handlers' effects, the commands that they
sent and the settlements commit together or not at all, and one event's failure costs the others
nothing: it is undone by its savepoint, or, if the page cannot commit, found by splitting the page.
A handler that closes the page's connection, or ends its transaction, fails alone as well.
After a death in the middle of a page, events run alone, each counted before it runs, until the
poison is found. Known limit: handlers of one page run one after the other; slow work is a command.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from inboxd.api.connection import BlockingConnection
from inboxd.api.context import EventContext
from inboxd.api.drafts import CommandDraft
from inboxd.api.messages import Event
from inboxd.api.payload import decode, wrap_event
from inboxd.api.records import EventHandler
from inboxd.errors import HandlerCrashed, InboxdError
from inboxd.model.lane import Lane, Lanes
from inboxd.model.lineage import Lineage, child_of
from inboxd.model.outcome import Dead, Outcome, Succeeded, Unsuccessful, decide, explain
from inboxd.runtime.execution import Breath
from inboxd.runtime.outcomes import is_ours, name, setback
from inboxd.runtime.parts import Parts
from inboxd.runtime.processor import Page, Survey
from inboxd.store import bodies, commands, events
from inboxd.store.commands import Parent
from inboxd.store.connections import Connection, Row, is_closed, is_passing
from inboxd.store.handler_connection import PageSavepoint
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import bound, get_logger

_log = get_logger(__name__)
_handler_log = get_logger("inboxd.handler")


class _Spoiled(InboxdError):
    """A page did not commit because of one event."""

    def __init__(self, row: Row, handler: EventHandler | None, error: BaseException) -> None:
        super().__init__(str(error))
        self.row = row
        self.handler = handler
        self.error = error


@dataclass(slots=True)
class _Results:
    """What a page has to write, and what it has counted; spoiled: by whom, if it is known."""

    done: list[tuple[int, float]] = field(default_factory=list)
    setbacks: list[events.Setback] = field(default_factory=list)
    sent: list[tuple[CommandDraft, Parent]] = field(default_factory=list)
    counts: list[tuple[str, Outcome, float, float]] = field(default_factory=list)
    spoiled: _Spoiled | None = None

    @property
    def rows(self) -> int:
        """Events that were run."""
        return len(self.done) + len(self.setbacks)


class EventWork:
    """The event processor's work."""

    def __init__(self, parts: Parts) -> None:
        """Process the events that the plugins serve."""
        self._parts = parts
        self.limits = parts.settings.events
        self._lanes = Lanes()
        self._most = self.limits.page_rows
        self._careful = 0
        # The event that runs alone, while its crash is counted beforehand.
        self._marked: Row | None = None
        self.in_flight = 0

    def be_careful(self) -> None:
        """Somebody died, perhaps in the middle of a page: run the next page's events alone."""
        self._careful = self.limits.page_rows
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
        if self._marked is not None:
            await self._unmark(self._marked)
        lanes = self._lanes.ordered()
        if not lanes:
            return Page(0)
        try:
            async with borrow(self._parts.pool) as connection:
                if self._careful > 0:
                    return await self._page_of_one(connection, lanes)
                return await self._page(connection, lanes)
        except _Spoiled as spoiled:
            return await self._blame(spoiled)

    # ---------------------------------------------------------------------------------- pages

    async def _page(self, connection: Connection, lanes: Sequence[Lane]) -> Page:
        most, rows, results = self._most, list[Row](), _Results()
        try:
            async with connection.transaction():
                rows = await self._claim(connection, lanes, most)
                if not rows:
                    return Page(0)
                await self._run(connection, rows, results)
                await self._write(connection, results)
        except Exception as error:
            if not rows:
                raise
            return self._failed(connection, rows, results.spoiled or error)
        finally:
            self.in_flight = 0
        self._advance(lanes, rows[: results.rows])
        self._count(results)
        self._most = min(2 * most, self.limits.page_rows)
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
        if isinstance(error, _Spoiled):
            raise error
        if is_closed(connection):
            # An outage, most likely; alone, the next ones will tell.
            self.be_careful()
        if is_passing(error):
            raise error
        _log.warning("page of events did not commit", rows=len(rows), reason=explain(error).error)
        if len(rows) == 1:
            handlers = self._parts.registry.events[rows[0]["type"]]
            raise _Spoiled(rows[0], handlers[0], error)
        self._most = len(rows) // 2
        return Page(0, busy=True)

    async def _blame(self, spoiled: _Spoiled) -> Page:
        """Fail the one event, on a connection that works: in an outage nobody is blamed."""
        async with borrow(self._parts.pool) as connection, connection.transaction():
            row = await events.claim_one(connection, self._parts.sql, spoiled.row["id"])
            if row is not None:
                outcome = self._judge(spoiled.error, row, spoiled.handler)
                blame = [setback(outcome, row, self._parts.me.id)]
                await events.set_back(connection, self._parts.sql, blame)
        self._marked = None
        return Page(1)

    async def _page_of_one(self, connection: Connection, lanes: Sequence[Lane]) -> Page:
        """Run one event alone, its crash counted beforehand: two transactions."""
        keep = self._parts.settings.database.idle_in_transaction_timeout
        async with connection.transaction():
            claimed = await self._claim(connection, lanes, 1)
            if not claimed:
                return Page(0)
            row = claimed[0]
            if row["crashes"] >= self._parts.settings.worker.crash_limit:
                await self._convict(connection, row)
                return Page(1)
            await events.mark_crash(connection, self._parts.sql, row["id"], keep)
        self._marked = row
        results = _Results()
        try:
            async with connection.transaction():
                again = await events.claim_one(connection, self._parts.sql, row["id"])
                if again is not None:
                    await self._run(connection, [again], results)
                    await self._write(connection, results)
        except Exception as error:  # noqa: BLE001 - sorted out there
            return self._failed(connection, claimed, results.spoiled or error)
        finally:
            self._careful -= 1
            self.in_flight = 0
        self._marked = None
        self._advance(lanes, claimed)
        self._count(results)
        return Page(1)

    async def _unmark(self, row: Row) -> None:
        """Its run ended with the connection, but this process lives: that was no crash."""
        async with borrow(self._parts.pool) as connection, connection.transaction():
            if await events.claim_one(connection, self._parts.sql, row["id"]) is not None:
                back = events.Setback(row["id"], "pending", delay=0.0, crashes=row["crashes"])
                await events.set_back(connection, self._parts.sql, [back])
        self._marked = None

    async def _convict(self, connection: Connection, row: Row) -> None:
        crashes = row["crashes"]
        error = HandlerCrashed(
            f"its worker, or its connection, ended {crashes} times while it ran this event"
        )
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

    # --------------------------------------------------------------------------------- events

    async def _run(self, connection: Connection, rows: Sequence[Row], results: _Results) -> None:
        """Run events until the page's time, or its room for commands, is spent."""
        ends = time.monotonic() + self.limits.page_time.total_seconds()
        breath = Breath()
        for portion in bodies.portions(rows, self.limits.page_bytes):
            payloads = await bodies.read(connection, self._parts.sql, portion)
            for row in portion:
                raw = row["payload"] if row["body_id"] is None else payloads.get(row["body_id"])
                await self._run_one(connection, row, raw, results)
                await breath.take()
                if len(results.sent) >= self.limits.page_commands or time.monotonic() > ends:
                    return

    async def _run_one(
        self, connection: Connection, row: Row, raw: str | None, results: _Results
    ) -> None:
        started = time.monotonic()
        savepoint = PageSavepoint(connection)
        drafts: list[CommandDraft] = []
        outcome: Outcome = Succeeded()
        handler: EventHandler | None = None
        try:
            for handler in self._parts.registry.events[row["type"]]:
                drafts += await self._handle(
                    handler, row, "null" if raw is None else raw, savepoint
                )
            await savepoint.keep()
        except BaseException as error:
            if savepoint.broken and not is_ours(error):
                # Remembered: the driver raises an error of its own when the transaction is left.
                results.spoiled = _Spoiled(row, handler, error)
                raise results.spoiled from error
            if is_ours(error) or is_closed(connection):
                raise
            await savepoint.undo()
            outcome = self._judge(error, row, handler)
        seconds = time.monotonic() - started
        results.counts.append((row["type"], outcome, seconds, row["waited"]))
        if isinstance(outcome, Succeeded):
            results.done.append((row["id"], seconds))
            if drafts:
                parent = _parent(row)
                results.sent += [(draft, parent) for draft in drafts]
        else:
            results.setbacks.append(setback(outcome, row, self._parts.me.id))

    async def _handle(
        self, handler: EventHandler, row: Row, raw: str, savepoint: PageSavepoint
    ) -> list[CommandDraft]:
        registry = self._parts.registry
        if handler.command_type is not None:
            return [wrap_event(registry.command_of(handler), row, raw)]
        event = Event(row, decode(handler, raw, row["schema_version"]))
        connection: Any = savepoint.connection
        if handler.executor == "thread":
            connection = BlockingConnection(connection)
        context = EventContext(row, connection, registry.resolve, _handler_log)
        limit = handler.timeout or self.limits.timeout.total_seconds()
        with bound(event_id=row["event_id"], correlation_id=row["correlation_id"]):
            try:
                await self._parts.executions.run("event", row["id"], handler, event, context, limit)
                return context.drafts
            finally:
                context.close()

    def _judge(self, error: BaseException, row: Row, handler: EventHandler | None) -> Unsuccessful:
        policy = (handler and handler.retry) or self._parts.policy
        outcome = decide(error, policy, row["attempts"], timedelta(seconds=row["age"]))
        failure = explain(error)
        self._parts.metrics.tally.fail("event", row["type"], failure.kind)
        with bound(event_id=row["event_id"], correlation_id=row["correlation_id"]):
            _log.info(
                "event did not succeed",
                type=row["type"],
                outcome=name(outcome),
                attempt=row["attempts"] + 1,
                error=failure.error,
            )
        return outcome

    async def _write(self, connection: Connection, results: _Results) -> None:
        started = time.monotonic()
        sql, me = self._parts.sql, self._parts.me.id
        if results.sent:
            await commands.insert(connection, sql, results.sent)
        if results.done:
            await events.settle(connection, sql, results.done, me)
        if results.setbacks:
            await events.set_back(connection, sql, results.setbacks)
        self._parts.metrics.settle_seconds.labels("event").observe(time.monotonic() - started)

    def _count(self, results: _Results) -> None:
        tally = self._parts.metrics.tally
        for type_, outcome, seconds, waited in results.counts:
            tally.add("event", type_, name(outcome), seconds, waited)
        tally.fold()


def _parent(row: Row) -> Parent:
    lineage = Lineage(row["correlation_id"], row["causation_id"], row["traceparent"])
    return Parent("event", row["id"], child_of(lineage, row["event_id"]))
