"""One relay of this worker: leases pages of its topic, has them published, settles them.

Owns the publishers, the tasks that run pages, and the pauses after a failure. Promises that an
outage of the broker or the database is nobody's failure and spends no attempt; that after any
failure the connection to the broker is closed, so that nothing is sent later; and that two pages
never have a bucket in common. Known limits: while a broker does not answer, the buckets of its
pages are leased for the relay's `timeout`; a message that kills its worker is not found, as a
handler's is (ADR 3), and kills the next worker, too.
*See:* `processing`, before it; `page`, after it; `inboxd/brokers/kinds.py`, for publishers.
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
from inboxd.store.connections import Connection, is_refusal
from inboxd.store.pools import lend, transact, transaction
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds before what failed is tried again, twice as long each time, up to the longest; where a
# broker is away, its breaker says when.
_LONGEST = 5.0
_AFTER_FAILURE = 0.1
_LONGEST_OF_BROKER = 0.2
# A page that the database refuses is settled as a whole until its pause is longer, 1.5 s in all.
_REFUSED_FOR_LONG = 1.0
# Between two looks for what has come, while other work keeps the processor awake.
_LOOK = 0.02
_LONGEST_LOOK = 0.5
# Seconds that a publisher gets to be there beyond its own time, and to be gone.
_GRACE = 2.0


class RelayRunner:
    """Runs the pages of one relay, in tasks of `tasks`, up to its `concurrency` at a time.

    A task claims page after page until it finds nothing. One begins at once where something is
    known to be due (`_work_seen`: a survey saw it, or it was left). Else one begins on a hint,
    where lines are known and no task runs, `_LOOK` after the last (`_begun_at`). None begins before
    `_not_before`, which is later after a failure (`_failure_wait`), where others have what is due,
    and where nothing was found beside pages of this worker (`_vain_wait`).
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
        """Publish the topic `name`; `wake` ends the processor's sleep.

        holds_lease: whether this worker surely is not taken for dead.
        """
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
        self._not_before = self._begun_at = self._failure_wait = self._vain_wait = 0.0
        self._trouble: str | None = None

    @property
    def in_flight(self) -> int:
        """Events that are leased here and not settled yet."""
        return sum(len(page.rows) for page in self._pages)

    @property
    def is_busy(self) -> bool:
        """Whether a task runs pages, or looks for one."""
        return bool(self._scopes)

    @property
    def again(self) -> float | None:
        """Seconds after which something is to be tried again."""
        wait = self._not_before - time.monotonic()
        return wait if wait > 0 and self._work_seen else None

    def forget(self) -> None:
        """The connection was lost: another server may answer next."""
        self._source.forget()

    async def survey(self, connection: Connection, looked: LineLook) -> Survey:
        """Take over what a look at all lines has seen."""
        async with self._claiming:
            seen = await self._source.survey(connection, looked)
        self._work_seen = self._work_seen or seen.due
        return Survey(seen.due and self._may_begin(), seen.next)

    def start(self) -> int:
        """Begin tasks, if there may be something for them; how many were begun on a hint."""
        if not self._may_begin():
            return 0
        now = time.monotonic()
        if not self._work_seen:
            if not self._scopes and self._source.is_known() and now >= self._begun_at + _LOOK:
                self._begin()
            return 0
        self._begin()
        return 1

    def suspend(self) -> None:
        """The lease could not be renewed: publish nothing."""
        self._suspended = True
        for scope in self._scopes:
            scope.cancel()

    def resume(self) -> None:
        """The lease was renewed."""
        self._suspended = False
        self._wake()

    def stop(self) -> None:
        """Begin no more; a page ends with the wave that is under way."""
        self._stopping = True

    async def finish(self) -> None:
        """Wait for the pages that go on, and close the connections."""
        try:
            while self._scopes:
                await self._ended.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connections that no page has."""
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
        """Pages, one after the other, until nothing is found; does not raise."""
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
        """A page, and what follows if it fails; whether there may be another at once."""
        try:
            page = await self._claim()
            if page is None:
                return self._rest()
            return await self._process(page)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next page must come
            self._source.forget()
            self._fail(error, "a page of a relay did not commit")
            return False

    def _rest(self) -> bool:
        """Nothing could be had: wait a little, if something is there. Returns False."""
        wait = self._source.again
        if wait is not None:
            self._work_seen = True
            self._not_before = time.monotonic() + wait
        elif self._pages:  # what was seen is theirs, most likely: it is looked for later each time
            self._vain_wait = min(max(2 * self._vain_wait, _LOOK), _LONGEST_LOOK)
            self._not_before = time.monotonic() + self._vain_wait
        return False

    async def _process(self, page: RelayPage) -> bool:
        publisher: Publisher | None = None
        committed = False
        self._pages.add(page)
        self._vain_wait = 0.0
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
            # What others looked for in vain may be had now.
            self._vain_wait = self._not_before = 0.0
            page.claim.ended(page.met, committed=committed)
        if page.lost is not None:
            self._parts.metrics.relays.lost(self.name)
            await self.close()  # they are as old as the one that was lost
            self._fail(page.lost, "a broker does not take what is published", _LONGEST_OF_BROKER)
            return False
        self._recovered()
        return True

    async def _settle(self, page: RelayPage) -> None:
        """Again and again, since what is not settled would be published again. Raises LeaseLost.

        What the database refuses for a while is one event's fault, most likely: it is found.
        """
        pause, apart = _AFTER_FAILURE, False
        while True:
            try:
                async with transact(self._parts.pool) as connection:
                    await page.settle(connection, apart=apart)
            except LeaseLost:
                raise
            except Exception as error:
                if self._stopping or self._suspended:
                    raise
                _log.warning(
                    "what is published is not settled yet",
                    relay=self.name,
                    reason=explain(error).error,
                    pause=pause,
                )
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                apart = pause > _REFUSED_FOR_LONG and is_refusal(error)
            else:
                page.count()
                return

    # ----------------------------------------------------------------------------------- claims

    async def _claim(self) -> RelayPage | None:
        """Lease buckets and read a page of them; None: there is nothing."""
        if not self._source.is_known():
            return None
        pool, most = self._parts.pool, self._most()
        if not most:
            return None
        # The connection first, then the lock: as for who looks at all lines.
        async with lend(pool) as connection, self._claiming:
            async with transaction(pool, connection):
                self._fences = {}
                claim = await self._source.claim(connection, most)
                if claim is None:
                    await relays.free(connection, self._parts.sql, self._parts.me.id, self._fences)
                    return None
                fences = {each: self._fences[each] for each in claim.buckets}
                page = RelayPage(self._parts, self._settling, self.name, self._relay, claim, fences)
                await page.read(connection)
            claim.ran(len(page.rows))
        return page

    def _most(self) -> int:
        """How many events a page may have; a few, while this worker probes."""
        room = self._parts.breakers.room
        rooms = [room("topic", self.name, type_) for type_ in self._relay.types]
        return min([self._relay.page_rows, *(each for each in rooms if each is not None)])

    async def _lease(
        self, connection: Connection, buckets: Sequence[Bucket], most: int
    ) -> Sequence[Bucket]:
        """Take buckets and lease them, under the lock of claims."""
        had = await relays.lease(connection, self._parts.sql, self._parts.me.id, buckets, most)
        self._fences |= had
        return [bucket for bucket in buckets if bucket in had]

    # ------------------------------------------------------------------------------- publishers

    async def _open(self, page: RelayPage) -> Publisher | None:
        """A publisher; None: the broker cannot be reached, as the page is told."""
        servers = max(1, len(self._broker.servers))  # tried one after the other
        limit = servers * self._broker.connect_timeout.total_seconds() + _GRACE
        try:
            with anyio.fail_after(limit):
                return await self._open_publisher(self._relay.broker, self._broker)
        except TimeoutError:
            told = f"the broker {self._relay.broker!r} could not be reached within {limit:g} s"
            page.lose(BrokerUnavailable(told))
        except Exception as error:  # noqa: BLE001 - whatever a plugin's publisher raises
            page.lose(error)
        return None

    async def _close(self, publisher: Publisher) -> None:
        """At once: what was not sent must not be sent later."""
        with anyio.move_on_after(_GRACE, shield=True):
            try:
                await publisher.close()
            except Exception as error:  # noqa: BLE001 - what was confirmed is settled all the same
                reason = explain(error).error
                _log.warning("a publisher was not closed", relay=self.name, reason=reason)

    # --------------------------------------------------------------------------------- failures

    def _fail(self, error: Exception, event: str, longest: float = _LONGEST) -> None:
        """Wait before the next page, each time longer; what is new is logged."""
        self._failure_wait = min(max(2 * self._failure_wait, _AFTER_FAILURE), longest)
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
