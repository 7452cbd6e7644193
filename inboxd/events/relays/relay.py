"""One relay of this worker: it leases pages of its topic, publishes and settles them.

In an outage no event is blamed and no attempt is spent. After any failure the connection is closed,
so that nothing is sent later. Two pages never share a bucket. Known limits: while a broker does not
answer, the buckets of its pages stay leased for the relay's `timeout`; a message that kills its
worker is not found (unlike an event in a handler, ADR 3), and kills the next, too. *See:*
`processing`, before it; `page`, after it; `inboxd/brokers/kinds.py`.
"""

import time
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from inboxd.brokers import kinds
from inboxd.brokers.contract import Publisher
from inboxd.engine.parts import Parts
from inboxd.engine.processor import Survey
from inboxd.errors import BrokerUnavailable, LeaseLost
from inboxd.events.horizon import HorizonReader
from inboxd.events.relays.messages import RelayMessages
from inboxd.events.relays.page import RelayPage
from inboxd.events.settling import EventSettling
from inboxd.events.sources.sequential import SequentialSource
from inboxd.events.sources.served_lines import ServedLines
from inboxd.events.sources.source import LineLook
from inboxd.model.arrivals import Bucket
from inboxd.model.outcome import explain
from inboxd.store import relays
from inboxd.store.connections import is_refusal
from inboxd.store.pools import lend, transact, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Pauses after a failure in seconds, doubled each time: the longest, the first, and the longest
# after a failure of the broker, whose breaker then sets the pace.
_LONGEST_PAUSE = 5.0
_FIRST_PAUSE = 0.1
_LONGEST_BROKER_PAUSE = 0.2
# From this pause on, a refused page is settled event by event: after 1.5 s in all.
_PAUSE_BEFORE_APART = 1.0
# Pause between two tries on a hint, in seconds: the first, and the longest.
_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5
# Extra seconds for opening a publisher beyond its own limit, and seconds for closing it.
_GRACE_SECONDS = 2.0


class RelayRunner:
    """Runs the pages of one relay, in tasks of `tasks`, up to its `concurrency` at a time.

    A task claims page after page until it finds nothing. It begins at once if work is known to be
    due (`_work_seen`), or on a hint: lines are known, no task runs, and the last one began
    `_LOOK_SECONDS` ago. None begins before `_not_before`, which moves after a failure, while other
    workers have the due buckets, and after a task that found nothing beside running pages
    (`_empty_wait`).
    """

    def __init__(
        self,
        parts: Parts,
        tasks: TaskGroup,
        reader: HorizonReader,
        settling: EventSettling,
        name: str,
        wake: Callable[[], None],
        holds_lease: Callable[[], bool],
    ) -> None:
        """holds_lease: whether no worker can take this one for dead."""
        self.name = name
        self._parts = parts
        self._tasks = tasks
        self._settling = settling
        self._wake = wake
        self._holds_lease = holds_lease
        self._relay = parts.settings.relays[name]
        self._broker = parts.settings.brokers[self._relay.broker]
        self._open_publisher = kinds.publisher_of(self._broker.kind)
        self._messages = RelayMessages(self._relay)
        self._fences: dict[Bucket, int] = {}
        served = ServedLines(parts, relay=name)
        pages = self._relay.concurrency
        self._source = SequentialSource(parts, reader, served, self._lease, pages)
        self._claiming = anyio.Lock()
        self._idle: list[Publisher] = []
        self._pages: set[RelayPage] = set()
        self._scopes: set[anyio.CancelScope] = set()
        self._ended = anyio.Event()
        self._stopping = self._suspended = False
        self._work_seen = False
        self._not_before = self._begun_at = self._failure_wait = self._empty_wait = 0.0
        self._trouble: str | None = None

    @property
    def in_flight(self) -> int:
        return sum(len(page.rows) for page in self._pages)

    @property
    def is_busy(self) -> bool:
        return bool(self._scopes)

    @property
    def again(self) -> float | None:
        """Seconds until a task may begin again; None: no work is known, or it may begin now."""
        wait = self._not_before - time.monotonic()
        return wait if wait > 0 and self._work_seen else None

    def forget(self) -> None:
        self._source.forget()

    async def survey(self, session: Session, looked: LineLook) -> Survey:
        async with self._claiming:
            seen = await self._source.survey(session, looked)
        self._work_seen = self._work_seen or seen.due
        return Survey(seen.due and self._may_begin(), seen.next)

    def start(self) -> int:
        """Begin a task if it may find work; returns 0 if only a hint suggests work."""
        if not self._may_begin():
            return 0
        now = time.monotonic()
        if not self._work_seen:
            if (
                not self._scopes
                and self._source.is_known()
                and now >= self._begun_at + _LOOK_SECONDS
            ):
                self._begin()
            return 0
        self._begin()
        return 1

    def suspend(self) -> None:
        """Publish nothing: the lease was not renewed in time."""
        self._suspended = True
        for scope in self._scopes:
            scope.cancel()

    def resume(self) -> None:
        self._suspended = False
        self._wake()

    def stop(self) -> None:
        """Begin no more pages; running ones end with their current wave."""
        self._stopping = True

    async def finish(self) -> None:
        try:
            while self._scopes:
                await self._ended.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        while self._idle:
            await self._close(self._idle.pop())

    # ------------------------------------------------------------------------------------ tasks

    def _may_begin(self) -> bool:
        waits = time.monotonic() < self._not_before
        full = len(self._scopes) >= self._relay.concurrency
        return not (waits or full) and self._may_go_on()

    def _may_go_on(self) -> bool:
        ends = self._stopping or self._suspended or self._parts.exclusive_run.wanted
        return (
            not ends and self._holds_lease() and self._parts.controls.allow("topic", self.name, "")
        )

    def _begin(self) -> None:
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        self._begun_at = time.monotonic()
        self._work_seen = False
        self._tasks.start_soon(self._run, scope)

    async def _run(self, scope: anyio.CancelScope) -> None:
        """Run page after page while there are any; does not raise."""
        found = False
        try:
            with scope:
                while await self._turn():
                    found = True
                    if not self._may_go_on():
                        self._work_seen = True
                        break
        finally:
            self._scopes.discard(scope)
            self._ended.set()
            self._ended = anyio.Event()
            if found or self._work_seen:
                self._wake()

    async def _turn(self) -> bool:
        """Run a page; returns whether another page may follow at once."""
        try:
            page = await self._claim()
            if page is None:
                return self._rest()
            return await self._process(page)
        except Exception as error:  # noqa: BLE001 - the next page must come
            self._source.forget()
            self._fail(error, "a page of a relay did not commit")
            return False

    def _rest(self) -> bool:
        """Wait a little if events are due that could not be claimed. Returns False."""
        wait = self._source.again
        if wait is not None:
            self._work_seen = True
            self._not_before = time.monotonic() + wait
        elif self._pages:  # most likely these pages have the events: wait longer each time
            self._empty_wait = min(max(2 * self._empty_wait, _LOOK_SECONDS), _LONGEST_LOOK_SECONDS)
            self._not_before = time.monotonic() + self._empty_wait
        return False

    async def _process(self, page: RelayPage) -> bool:
        publisher: Publisher | None = None
        committed = False
        self._pages.add(page)
        self._empty_wait = 0.0
        try:
            try:
                publisher = self._idle.pop() if self._idle else await self._open(page)
                if publisher is not None:
                    await page.publish(publisher, self._messages, self._may_go_on)
                    if page.lost is None:
                        self._idle.append(publisher)
                        publisher = None
            finally:
                if publisher is not None:
                    await self._close(publisher)
            await self._settle(page)
            committed = True
        finally:
            self._pages.discard(page)
            # Buckets that other tasks could not get may be free now.
            self._empty_wait = self._not_before = 0.0
            page.claim.ended(page.met, committed=committed)
        if page.lost is not None:
            self._parts.metrics.relays.lost(self.name)
            await self.close()  # the unused connections may be lost, too
            self._fail(page.lost, "publishing to a broker failed", _LONGEST_BROKER_PAUSE)
            return False
        self._recovered()
        return True

    async def _settle(self, page: RelayPage) -> None:
        """Settle a page, with repeats: unsettled events would be published again. Raises LeaseLost.

        If the database refuses for a while, the cause is probably one event: it is searched for.
        """
        pause, apart = _FIRST_PAUSE, False
        while True:
            try:
                async with transact(self._parts.pool) as session:
                    await page.settle(session, apart=apart)
            except LeaseLost:
                raise
            except Exception as error:
                if self._stopping or self._suspended:
                    raise
                _log.warning(
                    "published events are not settled yet",
                    relay=self.name,
                    reason=explain(error).error,
                    pause=pause,
                )
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                apart = pause > _PAUSE_BEFORE_APART and is_refusal(error)
            else:
                page.count()
                return

    # ----------------------------------------------------------------------------------- claims

    async def _claim(self) -> RelayPage | None:
        """Lease buckets and read a page of them; None: there are no events."""
        if not self._source.is_known():
            return None
        pool, most = self._parts.pool, self._most()
        if not most:
            return None
        # First the connection, then the lock: the order of `survey`.
        async with lend(pool) as session, self._claiming:
            async with transaction(pool, session):
                self._fences = {}
                claim = await self._source.claim(session, most)
                if claim is None:
                    await relays.free(session, self._parts.me.id, self._fences)
                    return None
                fences = {each: self._fences[each] for each in claim.buckets}
                page = RelayPage(self._parts, self._settling, self.name, self._relay, claim, fences)
                await page.read(session)
            claim.ran(len(page.rows))
        return page

    def _most(self) -> int:
        """Maximum number of events in a page; a few while this worker probes the broker."""
        room = self._parts.breakers.room
        rooms = [room("topic", self.name, type_) for type_ in self._relay.types]
        return min([self._relay.page_rows, *(each for each in rooms if each is not None)])

    async def _lease(
        self, session: Session, buckets: Sequence[Bucket], most: int
    ) -> Sequence[Bucket]:
        had = await relays.lease(session, self._parts.me.id, buckets, most)
        self._fences |= had
        return [bucket for bucket in buckets if bucket in had]

    # ------------------------------------------------------------------------------- publishers

    async def _open(self, page: RelayPage) -> Publisher | None:
        """A publisher; None: the broker cannot be reached, and the page has the reason."""
        servers = max(1, len(self._broker.servers))  # the servers are tried one after the other
        limit = servers * self._broker.connect_timeout.total_seconds() + _GRACE_SECONDS
        try:
            with anyio.fail_after(limit):
                return await self._open_publisher(self._relay.broker, self._broker)
        except TimeoutError:
            told = f"the broker {self._relay.broker!r} could not be reached within {limit:g} s"
            page.lose(BrokerUnavailable(told))
        except Exception as error:  # noqa: BLE001 - a plugin's publisher may raise anything
            page.lose(error)
        return None

    async def _close(self, publisher: Publisher) -> None:
        """Close at once: unsent messages must not be sent later."""
        with anyio.move_on_after(_GRACE_SECONDS, shield=True):
            try:
                await publisher.close()
            except Exception as error:  # noqa: BLE001 - confirmed events are settled even so
                reason = explain(error).error
                _log.warning("a publisher was not closed", relay=self.name, reason=reason)

    # --------------------------------------------------------------------------------- failures

    def _fail(self, error: Exception, event: str, longest: float = _LONGEST_PAUSE) -> None:
        """Wait before the next page, longer each time; log a reason only when it is new."""
        self._failure_wait = min(max(2 * self._failure_wait, _FIRST_PAUSE), longest)
        self._not_before = time.monotonic() + self._failure_wait
        self._work_seen = True
        reason = explain(error).error
        if reason != self._trouble or isinstance(error, LeaseLost):
            _log.warning(event, relay=self.name, broker=self._relay.broker, reason=reason)
        self._trouble = reason

    def _recovered(self) -> None:
        if self._trouble is not None:
            _log.info("a relay publishes again", relay=self.name, broker=self._relay.broker)
        self._trouble, self._failure_wait = None, 0.0
