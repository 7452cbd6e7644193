"""A page of events: one transaction from the claim to the settlement.

The handlers' effects, their commands and the settlements commit together or not at all (promise 2).
If a page fails to commit, the event at fault is requeued if it is known; otherwise pages get
smaller until it is alone. *See:* `processing`, before it; `page_run`, `settling`, after it.
"""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import anyio

from inboxd.engine.parts import Parts
from inboxd.errors import DedupKeyHeld
from inboxd.events.page_order import PageOrder
from inboxd.events.page_run import PageRun
from inboxd.events.settling import EventSettling, NoteFailure, PageFailedBy, PageResults
from inboxd.events.sources.source import Claim, PageSources
from inboxd.model.outcome import explain
from inboxd.store import events
from inboxd.store.connections import is_passing, is_refusal
from inboxd.store.pools import transact
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PageFailure:
    """Why a page did not commit, and how to continue.

    blamed: one event was requeued, or set aside. settled: its id. broken: the connection was lost.
    most: maximum rows of the next page. outage: no event is at fault; the processor tries again.
    """

    blamed: bool = False
    settled: int | None = None
    most: int | None = None
    broken: bool = False
    outage: Exception | None = None


class EventPage:
    def __init__(self, parts: Parts, run: PageRun, settling: EventSettling) -> None:
        self.claim: Claim | None = None
        self.results = PageResults()
        self._parts = parts
        self._run = run
        self._settling = settling
        self._session: Session | None = None
        # Closing it ends the transaction.
        self._open = AsyncExitStack()
        self._failure: PageFailure | None = None
        self._ended = anyio.Event()

    @property
    def rows(self) -> Sequence[ClaimedEvent]:
        return () if self.claim is None else self.claim.rows

    @property
    def is_cut_short(self) -> bool:
        """Whether the run left rows out; they stay locked until this page has ended."""
        return self.results.met < len(self.rows)

    @property
    def is_full(self) -> bool:
        return self.claim is not None and self.claim.full

    @property
    def is_exclusive(self) -> bool:
        """Whether its buckets are closed to other pages until this page has ended."""
        return self.claim is not None and self.claim.exclusive

    async def begin(self, sources: PageSources, most: int) -> PageFailure | None:
        """Without rows the transaction has ended. Errors before the claim are raised."""
        if not sources.are_known():
            return None
        try:
            async with self._run.turn, AsyncExitStack() as stack:
                session = await stack.enter_async_context(transact(self._parts.pool))
                self._session = session
                await self._take(session, sources, most)
                if self.claim is not None:
                    await self._run.run(session, self.rows, self.results)
                    self._open = stack.pop_all()
        except Exception as error:
            if not self.rows:
                raise
            return await self._fail(error, lost=self._is_lost())
        if self.claim is not None:
            self.claim.ran(self.results.met)
        return None

    async def settle(self) -> None:
        """Write the outcomes and commit, or handle the failure. Does not raise."""
        assert self.claim is not None  # noqa: S101 - `begin` was called
        assert self._session is not None  # noqa: S101 - as above
        error: Exception | None = None
        lost = False
        try:
            async with self._open:
                await self._settling.write(self._session, self.results)
        except Exception as caught:  # noqa: BLE001 - `end` returns it
            error, lost = caught, self._is_lost()
        else:
            self._count()
        finally:
            self.claim.ended(self.results.met, committed=error is None)
            try:
                self._failure = None if error is None else await self._fail(error, lost=lost)
            finally:
                self._ended.set()

    def _count(self) -> None:
        """Count a committed page; an error here must not look like a failed commit."""
        try:
            self._settling.count(self.results)
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("a page of events could not be counted", reason=explain(error).error)

    async def end(self) -> PageFailure | None:
        await self._ended.wait()
        return self._failure

    async def _take(self, session: Session, sources: PageSources, most: int) -> None:
        started = time.monotonic()
        self.claim = await sources.claim(session, most)
        self.results.order = None if self.claim is None else self.claim.order
        metrics = self._parts.metrics
        metrics.claim_duration.labels("event").observe(time.monotonic() - started)
        metrics.page_rows.labels("event").observe(len(self.rows))

    # -------------------------------------------------------------------------------- failures

    def _is_lost(self) -> bool:
        """Whether the connection was lost; call it at once, before another task borrows it."""
        return self._session is None or self._session.connection.is_closed()

    async def _fail(self, error: Exception, *, lost: bool) -> PageFailure:
        """Handle an error; no claimed row is settled. Does not raise."""
        try:
            return await self._sort_out(error, lost=lost)
        except Exception as again:  # noqa: BLE001 - in an outage no event is blamed
            # If the event at fault is known, the next events need not run alone.
            return PageFailure(broken=lost and self.results.spoiled is None, outage=again)

    async def _sort_out(self, error: Exception, *, lost: bool) -> PageFailure:
        error = self.results.spoiled or error
        if isinstance(error, PageFailedBy):
            if lost and self._settling.losses.excuse(error.row["id"]):
                # In an outage, the next page fails to begin.
                _log.warning("a page lost its connection", rows=len(self.rows), reason=str(error))
                return PageFailure()
            return await self._blame(error)
        if is_passing(error):
            return PageFailure(broken=lost, outage=error)
        reason = explain(error).error
        _log.warning("page of events did not commit", rows=len(self.rows), reason=reason)
        suspects = self._emitters() if isinstance(error, DedupKeyHeld) else self.rows
        if len(suspects) == 1:
            row = suspects[0]
            handlers = self._parts.registry.handlers_of(row["topic"], row["type"])
            # An event that runs as a chunk has no handler of its own: the rule of its topic
            # applies.
            return await self._blame(
                PageFailedBy(row, next(iter(handlers), None), error), broken=lost
            )
        return PageFailure(most=len(self._before(suspects[len(suspects) // 2])), broken=lost)

    async def _blame(self, spoiled: PageFailedBy, *, broken: bool = False) -> PageFailure:
        """Fail the event at fault, on a working connection: in an outage no event is blamed."""
        row_id = spoiled.row["id"]
        try:
            found = await self._requeue(spoiled, self._settling.fail)
        except Exception as error:
            if not is_refusal(error):
                raise
            # An event that cannot be requeued would come first in each page, and block all later
            # ones.
            reason = explain(error).error
            _log.error("an event cannot be requeued", id=row_id, reason=reason)
            found = await self._bury(PageFailedBy(spoiled.row, spoiled.handler, error))
        # If the event was not found, the lost session may still hold it.
        return PageFailure(blamed=True, settled=row_id if found else None, broken=broken)

    async def _bury(self, spoiled: PageFailedBy) -> bool:
        """Make the event a dead letter, which has the least to refuse; if refused, set it aside."""
        try:
            return await self._requeue(spoiled, self._settling.bury)
        except Exception as error:
            if not is_refusal(error):
                raise
            reason = explain(error).error
            _log.error(
                "an event is set aside: the database refuses its outcome",
                id=spoiled.row["id"],
                reason=reason,
            )
            self._run.aside.put(spoiled.row["id"])
            return False

    async def _requeue(self, spoiled: PageFailedBy, judge: NoteFailure) -> bool:
        """Write an event's outcome in a transaction of its own; False: the row is not free."""
        assert self.claim is not None  # noqa: S101 - it has rows
        results = self._afresh()
        async with self._run.turn, transact(self._parts.pool) as session:
            await self.claim.hold(session, spoiled.row, self._before(spoiled.row))
            row = await events.claim_one(session, spoiled.row["id"])
            if row is not None:
                judge(spoiled.error, row, spoiled.handler, results)
                await self._settling.write(session, results)
        self._settling.tell(results)
        return row is not None

    def _afresh(self) -> PageResults:
        """Empty results for a new transaction, in which no line stands still yet."""
        in_lines = self.claim is not None and self.claim.order is not None
        return PageResults(order=PageOrder(self._parts) if in_lines else None)

    def _before(self, row: ClaimedEvent) -> Sequence[ClaimedEvent]:
        ids = [each["id"] for each in self.rows]
        return self.rows[: ids.index(row["id"])]

    def _emitters(self) -> Sequence[ClaimedEvent]:
        ids = {parent.id for _, parent in self.results.emitted}
        return [row for row in self.rows if row["id"] in ids]
