"""Endpoints of webhooks on one worker: reads them, and writes when they fail or recover.

A worker writes a transition only if it knew the endpoint's newest version; disabling is written
together with its audit entry. Known limit: while the database is away, the last known states apply,
and transitions wait. *See:* `inboxd.outbound.endpoints`; `queues` and `controls`.
"""

import time

import anyio

from inboxd.engine.controls import Controls
from inboxd.engine.queues import Queues
from inboxd.model.endpoints import AT_ONCE
from inboxd.model.outcome import explain
from inboxd.outbound.endpoints.book import EndpointBook
from inboxd.outbound.endpoints.endpoint import News, ServedEndpoint
from inboxd.settings import Queue
from inboxd.settings.values import Rate, parse_rate
from inboxd.store import endpoints as store
from inboxd.store import operations as audit
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

# Seconds between two checks for unwritten transitions, and between two readings.
_EVERY, _READ_EVERY = 0.5, 5.0
_MOST_AT_ONCE = 10_000
ACTOR = "inboxd"


class Endpoints:
    def __init__(self, metrics: Metrics, queues: Queues, controls: Controls) -> None:
        self.book = EndpointBook(self.on_notify)
        self._metrics = metrics
        self._queues = queues
        self._controls = controls
        self._work = anyio.Event()
        self._reads = True
        self._read_at = 0.0
        self._is_due = True
        self._applied: object = None
        self._shown: frozenset[str] = frozenset()

    def on_notify(self) -> None:
        self._is_due = True
        self._work.set()

    async def keep(self, pool: Pool) -> None:
        while True:
            with anyio.move_on_after(_EVERY):
                await self._work.wait()
            self._work = anyio.Event()
            try:
                await self.turn(pool)
                self._reads = True
            except Exception as error:  # noqa: BLE001 - the next turn must come
                if self._reads:
                    OUTAGE.warn(_log.warning, "endpoints cannot be read", error)
                self._reads, self._is_due = False, True

    async def turn(self, pool: Pool) -> None:
        """Write transitions of endpoints, and read all endpoints if something may have changed."""
        now = time.monotonic()
        self._apply()  # a disabled endpoint's queue is paused even before the transition is written
        unwritten = self.book.unwritten(now)
        is_due = self._is_due or bool(unwritten) or now - self._read_at >= _READ_EVERY
        if not is_due:
            return
        self._is_due = False
        async with lend(pool) as session:
            for endpoint, news in unwritten:
                async with transaction(pool, session):
                    written = await _write(session, endpoint, news)
                if written:
                    endpoint.wrote(news, time.monotonic())
                    self._report(endpoint, news)
            taken_over = self.book.reading()
            # Taken before the reading, so that changes of other workers seem older than they are,
            # never newer: a success after a failure must not seem older than the failure.
            self._read_at = time.monotonic()
            async with transaction(pool, session):
                rows = await store.read(session)
        self.book.reload(rows, self._read_at)
        for name in rows:  # start at 0: a counter that begins at 1 shows no increase
            for by in ("failures", "gone"):
                self._metrics.endpoints_disabled.labels(name, by)
        self._apply()
        taken_over()

    async def finish(self, pool: Pool) -> None:
        """Write the successes of the last minute, which are only in this worker's memory."""
        unnoted = [each for each in self.book.endpoints if not each.is_noted]
        if not unnoted:
            return
        try:
            async with lend(pool) as session:
                for each in unnoted:
                    known = (each.written.name, *each.success(time.monotonic()))
                    async with transaction(pool, session):
                        await store.note_success(session, *known, last=True)
        except Exception as error:  # noqa: BLE001 - the worker must end anyway
            _log.warning("endpoints cannot be written", reason=explain(error).error)

    def _apply(self) -> None:
        """Apply changed limits and states of endpoints to their queues."""
        known = [(each, each.written) for each in self.book.endpoints]
        states = {row.name: (row.rate, row.concurrency, each.is_open) for each, row in known}
        if states == self._applied:
            return
        self._applied = states
        self._queues.add({each.queue: _queue_of(each) for each, _ in known})
        self._controls.leave(each.queue for each, _ in known if not each.is_open)

    def _report(self, endpoint: ServedEndpoint, news: News) -> None:
        name, reason = endpoint.written.name, endpoint.reason
        if news == "failing":
            _log.warning("endpoint fails", endpoint=name, reason=reason)
        elif news == "recovered":
            _log.info("endpoint has recovered", endpoint=name)
        elif news != "succeeded":
            self._metrics.endpoints_disabled.labels(name, news).inc()
            _log.error(
                "endpoint is disabled: its webhooks wait until it is enabled",
                endpoint=name,
                by=news,
                failed_for=round(endpoint.failing_for(time.monotonic())),
                reason=reason,
            )

    def show(self) -> None:
        now, metrics = time.monotonic(), self._metrics
        for each in self.book.endpoints:
            name = each.written.name
            for outcome, count in each.counts():
                metrics.deliveries.labels(name, outcome).inc(count)
            metrics.endpoint_failure_age.labels(name).set(each.failing_for(now))
        names = frozenset(each.written.name for each in self.book.endpoints)
        for name in self._shown - names:
            metrics.endpoint_failure_age.remove(name)
        self._shown = names


async def _write(session: Session, endpoint: ServedEndpoint, news: News) -> bool:
    """Write one transition; False: another worker was faster (the next reading finds that)."""
    row, status, reason = endpoint.written, endpoint.status, endpoint.reason
    known, now = (row.name, row.version), time.monotonic()
    if news == "failing":
        ago = endpoint.failed_for(now)
        return await store.fail(session, *known, (status, reason), ago) is not None
    succeeded = endpoint.last_success
    if news == "recovered":
        if await store.recover(session, *known, *endpoint.recovered_by(now)) is None:
            return False
        endpoint.noted(succeeded)
        return True
    if news == "succeeded":
        success = endpoint.success(now)
        if await store.note_success(session, row.name, *success, last=False):
            endpoint.noted(succeeded)
        return True
    # Not the text of the answer: it may quote the request.
    why = "no answer came" if status is None else f"it answered {status}"
    if await store.give_up(session, *known, news, why, (status, reason)) is None:
        return False
    await audit.record(session, ACTOR, "disable", f"endpoint {row.name}", why, 1)
    return True


def _queue_of(endpoint: ServedEndpoint) -> Queue:
    row = endpoint.written
    total = None if row.concurrency is None else min(row.concurrency, _MOST_AT_ONCE)
    return Queue(
        concurrency=AT_ONCE if total is None else None,
        total_concurrency=total,
        rate=_rate(row.rate),
        breaker=endpoint.queue,
    )


def _rate(text: str | None) -> Rate | None:
    """The rate; None if it is so high that it needs no limit."""
    try:
        return None if text is None else parse_rate(text)
    except ValueError:
        return None
