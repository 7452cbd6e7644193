"""An event that runs alone after a death: a page of one, in two transactions."""

from dataclasses import replace
from datetime import timedelta

from inboxd.engine.outcomes import requeue, site_of
from inboxd.engine.parts import Parts
from inboxd.events.page import EventPage, PageFailure
from inboxd.events.page_run import PageRun
from inboxd.events.quarantine import Quarantine
from inboxd.events.settling import EventSettling
from inboxd.events.sources.source import PageSources
from inboxd.model.outcome import Dead
from inboxd.store import events
from inboxd.store.events import Mark
from inboxd.store.pools import lend
from inboxd.store.rows import ClaimedEvent
from inboxd.store.session import Session


class LoneEvent(EventPage):
    """The next event, alone. ran: False if another worker has it."""

    def __init__(
        self,
        parts: Parts,
        run: PageRun,
        settling: EventSettling,
        sources: PageSources,
        quarantine: Quarantine,
    ) -> None:
        super().__init__(parts, run, settling)
        self.ran = True
        self._sources = sources
        self._quarantine = quarantine
        self._again: ClaimedEvent | None = None

    @property
    def keep(self) -> timedelta:
        return self._parts.settings.database.idle_in_transaction_timeout

    async def run_alone(self) -> PageFailure | None:
        error: Exception | None = None
        lost = False
        async with lend(self._parts.pool) as self._session:
            mark = await self._quarantine.mark(self._session, self)
            if self.claim is not None:
                self.claim.ran(1)
                self.claim.ended(1, committed=True)
            if mark is not None:
                try:
                    self.ran = await self._quarantine.run(self._session, self, mark)
                except Exception as caught:  # noqa: BLE001 - handled below
                    error, lost = caught, self._is_lost()
        if error is not None:
            return await self._fail(error, lost=lost)
        if mark is not None:
            self._settling.count(self.results)
        return None

    async def find(self, session: Session) -> Mark | None:
        """Claim an event; convict it, or pass it over if it must not run yet."""
        await self._take(session, self._sources, 1)
        if self.claim is None:
            return None
        row, order = self.rows[0], self.claim.order
        if self._run.aside.has(row["id"]):
            return None
        if order is None or order.may_run(row):
            if not self._quarantine.is_guilty(row["crashes"]):
                return Mark(row["id"], row["crashes"], row["run_at"])
            self._convict(row)
        await self._settling.write(session, self.results)
        return None

    async def marked(self, session: Session) -> None:
        """Line up an event with a key, so that its line stands still until it has run."""
        if self.results.order is not None:
            self.results.order.stop(self.rows[0])
        await self._settling.write(session, self.results)

    async def find_again(self, session: Session) -> bool:
        """Claim the marked event by its id."""
        assert self.claim is not None  # noqa: S101 - it was marked
        self.results = self._afresh()
        await self.claim.hold(session, self.rows[0], ())
        self._again = await events.claim_one(session, self.rows[0]["id"])
        return self._again is not None

    async def run(self, session: Session) -> None:
        assert self._again is not None  # noqa: S101 - it was found again
        await self._run.run(session, [self._again], self.results)
        await self._settling.write(session, self.results)

    def _convict(self, row: ClaimedEvent) -> None:
        crashes = row["crashes"]
        site = site_of(row, None)
        failure = self._quarantine.convict(crashes, site, event_id=row["event_id"])
        dead = replace(requeue(Dead(failure), row, self._parts.me), crashes=crashes)
        self.results.requeues.append(dead)
        if self.results.order is not None:
            self.results.order.requeue(row, dead=True)
