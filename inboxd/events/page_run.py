"""Runs a page's events through their handlers, and notes the outcomes for the settlement.

A failure is rolled back to its savepoint; the event which ends the connection or transaction is
known (promise 2). Known limit: the handlers of a page run one after the other. *See:* `page`,
before it; `engine/execution.py`, then `settling`, after it.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from inboxd.api.context import EventContext
from inboxd.api.messages import Event
from inboxd.api.payload import decode, wrap_event
from inboxd.api.records import EventHandler
from inboxd.engine import row_log
from inboxd.engine.execution import CooperativeYield, Task
from inboxd.engine.outcomes import is_ours, parent_of
from inboxd.engine.parts import Parts
from inboxd.engine.target_calls import watch
from inboxd.events.page_order import may_probe
from inboxd.events.set_aside import SetAside
from inboxd.events.settling import (
    EventSettling,
    Outgoing,
    PageFailedBy,
    PageResults,
    counted,
    ended_story,
)
from inboxd.model.outcome import Outcome, Succeeded
from inboxd.store import bodies
from inboxd.store.handler_connection import PageSavepoint
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.telemetry.logs import bound, get_logger

_handler_log = get_logger("inboxd.handler")

# A page starts no further event after this many sent commands and events, which are in memory.
_MOST_SENT = 10_000


class ChunkOfOne(Protocol):
    async def alone(
        self,
        task: Task,
        session: Session,
        row: ClaimedEvent,
        payloads: Mapping[int, str],
        results: PageResults,
    ) -> None: ...


class PageRun:
    def __init__(self, parts: Parts, settling: EventSettling, chunks: ChunkOfOne) -> None:
        """chunks: runs the single events of batch topics (retries, replays), one by one."""
        # Held while handlers of a page run, and while a failed page is handled.
        self.turn = asyncio.Lock()
        self.aside = SetAside()
        self._parts = parts
        self._settling = settling
        self._chunks = chunks

    async def run(
        self, session: Session, rows: Sequence[ClaimedEvent], results: PageResults
    ) -> None:
        """Events of a line that must wait are passed over. Changed controls end the page."""
        controls, breakers = self._parts.controls, self._parts.breakers
        version = controls.version
        limits = self._settling.limits
        ends = time.monotonic() + limits.page_time.total_seconds()
        cooperative_yield, task = CooperativeYield(), asyncio.current_task()
        starts_are_logged, results.tells = row_log.logs_starts(), row_log.logs_ends()
        for portion in bodies.portions(rows, limits.page_bytes):
            payloads = await bodies.read(session, portion)
            for row in await bodies.complete(session, portion):
                if results.order is None and not may_probe(self._parts, row):
                    return
                results.met += 1
                if self.aside.has(row["id"]):
                    results.aside += 1
                    if results.order is not None:
                        results.order.stop(row)
                    continue
                if results.order is not None and not results.order.may_run(row):
                    continue
                raw = row["payload"] if row["body_id"] is None else payloads.get(row["body_id"])
                if starts_are_logged:
                    row_log.event_starts(row)
                try:
                    await self._run_one(task, session, row, raw, results)
                finally:
                    if breakers.held:
                        breakers.release("topic", row["id"])
                await cooperative_yield.take()
                if (
                    len(results.sent) + len(results.emitted) >= _MOST_SENT
                    or time.monotonic() > ends
                    or controls.version != version
                ):
                    return

    async def _run_one(
        self, task: Task, session: Session, row: ClaimedEvent, raw: str | None, results: PageResults
    ) -> None:
        if row["topic"] in self._parts.registry.chunks:
            payloads = {} if row["body_id"] is None or raw is None else {row["body_id"]: raw}
            await self._chunks.alone(task, session, row, payloads, results)
            return
        started = time.monotonic()
        savepoint = PageSavepoint(session, self._parts.pool.preamble)
        sent = Outgoing()
        outcome: Outcome = Succeeded()
        handler: EventHandler | None = None
        try:
            for handler in self._parts.registry.handlers_of(row["topic"], row["type"]):
                await self._handle(
                    task, handler, row, "null" if raw is None else raw, savepoint, sent
                )
            await savepoint.keep()
        except BaseException as error:
            if is_ours(error):
                await savepoint.abandon()
                raise
            await savepoint.undo()
            if savepoint.broken:
                # Kept, since leaving the transaction raises another error of the driver.
                results.spoiled = PageFailedBy(row, handler, error)
                raise results.spoiled from error
            if session.connection.is_closed():
                raise
            if self._is_excused(savepoint, row):
                await self._run_one(task, session, row, raw, results)
                return
            outcome = self._settling.fail(error, row, handler, results)
        seconds = time.monotonic() - started
        results.counts.append(counted(row, outcome, seconds))
        if isinstance(outcome, Succeeded):
            _succeeded(row, seconds, sent, results)

    def _is_excused(self, savepoint: PageSavepoint, row: ClaimedEvent) -> bool:
        """Whether the event met a void prepared statement, so that it may run again."""
        if not savepoint.void:
            return False
        self._parts.pool.prepare_anew()
        return self._settling.losses.excuse(row["id"])

    async def _handle(
        self,
        task: Task,
        handler: EventHandler,
        row: ClaimedEvent,
        raw: str,
        savepoint: PageSavepoint,
        sent: Outgoing,
    ) -> None:
        registry = self._parts.registry
        if handler.command_type is not None:
            sent.drafts.append(wrap_event(registry.command_of(handler), row, raw))
            return
        event = Event(row, decode(handler, raw, row["schema_version"]))
        lend = savepoint.lender(handler.executor)
        context = EventContext(row, lend, registry, _handler_log)
        limit = handler.timeout or self._settling.limits.timeout.total_seconds()
        with bound(
            event_id=row["event_id"], correlation_id=row["correlation_id"] or row["event_id"]
        ):
            calls = watch(self._parts.breakers, handler, row["id"])
            try:
                await self._parts.executions.run(
                    task, "event", row["id"], handler, event, context, limit
                )
                for call in calls:
                    call.succeeded()
                plan = context.plan()
                if plan is not None:
                    sent.plans.append(plan)
                sent.drafts += context.drafts
                sent.events += context.events
            except BaseException as error:
                for call in calls:
                    call.failed(error, self._settling.policy(row["topic"], handler))
                raise
            finally:
                context.close()


def _succeeded(row: ClaimedEvent, seconds: float, sent: Outgoing, results: PageResults) -> None:
    results.done.append((row["id"], seconds))
    if sent.drafts or sent.events or sent.plans:
        sent.note(parent_of(row), results)
    else:
        results.stories += ended_story(row, seconds)
    if results.tells:
        results.told.append(partial(row_log.event_succeeded, row, seconds, len(sent)))
