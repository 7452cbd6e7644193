"""The life of one source of messages in one worker: waits for its turn, reads, and tries again.

Owns when a consumer is opened and closed, and what is told of that. Promises that of a source whose
broker does not divide its streams one worker reads at a time, by a lease, and that another goes on
as soon as that one leaves; that what is paused, and a database or a broker that is away, stops the
reading, and nothing is held meanwhile; that a stream which is lost stops its source, told once,
until an operator resets it or its broker has it again. Known limit: a lease is lost with its
worker, which the reaper has to notice.
*See:* `daemon/message_sources.py`, which hosts it; `reading.py`, one consumer.
"""

import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from inboxd.brokers import kinds
from inboxd.brokers.contract import Consumer
from inboxd.engine.parts import Parts
from inboxd.errors import BrokerUnavailable, LeaseLost, StreamLost
from inboxd.inbound.messages.compiled import CompiledMessageSource
from inboxd.inbound.messages.reading import ConsumerReading
from inboxd.inbound.messages.storing import PageStoring, TopicsPaused
from inboxd.inbound.messages.streams import OpenedStreams, StreamReset
from inboxd.model.backoff import Exponential
from inboxd.model.outcome import explain
from inboxd.store import leases, message_readers
from inboxd.store.message_readers import ReaderState
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# After a failure; shorter where nothing is wrong, as when another worker has taken over.
_WAITS: Final = Exponential(base="500ms", cap="30s", jitter="half")
# Seconds between two looks at lease and streams, and while it waits for its turn.
_LOOK = 1.0
# Between two looks for pauses, while it is paused.
_SOON = 0.25
# Seconds between two rows that tell the same, and two questions how far it is behind.
_SHOW = 5.0
# Seconds between two tries to open what was lost.
_LOST = 60.0
# Seconds beyond `connect_timeout` of each server for opening a consumer, which asks the database,
# too; and for closing one.
_OPENING, _CLOSING = 30.0, 5.0


class SourceReader:
    """One source of messages, as this worker reads it."""

    def __init__(self, parts: Parts, tasks: TaskGroup, name: str) -> None:
        """Raises UsageError for what cannot be compiled. tasks: where pages are stored."""
        self.name = name
        self._parts = parts
        self._tasks = tasks
        self._settings = settings = parts.settings.inbound.messages[name]
        self._broker = broker = parts.settings.brokers[settings.broker]
        self._compiled = CompiledMessageSource(name, broker.kind, settings)
        self._open_consumer = kinds.consumer_of(broker.kind)
        self._metrics = parts.metrics.messages.of(name, settings.broker)
        self._lease = f"source {name}"
        self._leased = False
        self._stopping = anyio.Event()
        self._streams = self._unopened()
        # Topics that a page would have gone to.
        self._paused_topics: frozenset[str] = frozenset()
        self._failures = 0
        self._state: ReaderState | None = None
        self._trouble: str | None = None
        self._lag: int | None = None
        self._shown_at = self._looked_at = self._measured_at = 0.0

    def stop(self) -> None:
        """Receive no more; `run` ends when what was received is stored."""
        self._stopping.set()

    async def run(self) -> None:
        """Live until stopped."""
        try:
            while not self._stopping.is_set():
                wait = await self._try()
                with anyio.move_on_after(wait):
                    await self._stopping.wait()
        finally:
            await self._leave()

    # ------------------------------------------------------------------------------------ turns

    async def _try(self) -> float:
        """Read, if it may; seconds after which to try again. Does not raise."""
        try:
            if why := self._paused():
                await self._tell("paused", why)
                return _SOON
            if not await self._has_lease():
                await self._tell("standby", None)
                return _LOOK
            await self._read()
        except StreamLost as error:
            return await self._lost(error)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next try must come
            return await self._failed(error)
        return 0.0

    async def _read(self) -> None:
        """Open a consumer and read from it, until it may not go on."""
        await self._show(self._state or "standby")  # without the database nothing is opened
        self._streams = streams = self._unopened()
        consumer = await self._open(streams)
        try:
            storing = PageStoring(
                self._compiled,
                streams,
                self._parts.pool,
                self._parts.sql,
                self._parts.controls,
                self._metrics,
            )
            given = (consumer, self._tasks, self._settings, streams, storing, self._metrics)
            reading = ConsumerReading(*given)
            await self._tell("reading", None)
            self._looked_at, self._measured_at = time.monotonic(), 0.0
            await reading.run(partial(self._goes_on, consumer))
        finally:
            with anyio.move_on_after(_CLOSING, shield=True):
                await consumer.close()

    async def _open(self, streams: OpenedStreams) -> Consumer:
        name, broker = self._settings.broker, self._broker
        limit = broker.connect_timeout.total_seconds() * len(broker.servers) + _OPENING
        opened: Consumer | None = None
        with anyio.move_on_after(limit):
            opened = await self._open_consumer(
                name, broker, self.name, self._settings, streams.stored
            )
        if opened is None:
            raise BrokerUnavailable(f"the broker {name!r} did not answer within {limit:g} s")
        return opened

    async def _goes_on(self, consumer: Consumer) -> bool:
        """Whether to receive more; now and then the database is asked, too. Raises StreamReset."""
        if self._stopping.is_set() or self._paused():
            return False
        now = time.monotonic()
        if now < self._looked_at + _LOOK:
            return True
        self._looked_at = now
        self._failures = 0  # it has lasted for a while
        if not await self._has_lease():
            return False
        await self._streams.watch()
        if now >= self._measured_at + _SHOW:
            self._measured_at = now
            self._lag = await consumer.lag()
            self._metrics.lag(self._lag)
            await self._show("reading")
        return True

    # ------------------------------------------------------------------------------------ may it

    def _paused(self) -> str | None:
        """Why it may not read, if an operator wants that."""
        controls = self._parts.controls
        if self.name in controls.named("source"):
            return f"the source is paused; inboxd resume source {self.name}"
        paused = {*controls.named("topic")}
        self._paused_topics &= paused
        found = paused.intersection(self._settings.topics) | self._paused_topics
        if not found:
            return None
        return f"its events go to what is paused: {', '.join(sorted(found))}; inboxd resume topic"

    async def _has_lease(self) -> bool:
        """Whether this worker is to read, which takes the lease if it is free."""
        if self._compiled.grouped:
            return True
        sql, me = self._parts.sql, self._parts.me.id
        async with borrow(self._parts.pool) as connection:
            if not self._leased:
                await leases.make(connection, sql, self._lease)
            self._leased = True  # before it is: the answer may be lost
            self._leased = await leases.hold(connection, sql, self._lease, me)
        return self._leased

    async def _give_back(self) -> None:
        """Let another worker read, if it can."""
        if self._leased:
            async with borrow(self._parts.pool) as connection:
                me = self._parts.me.id
                await leases.free(connection, self._parts.sql, self._lease, me)
            self._leased = False

    # ---------------------------------------------------------------------------------- failures

    async def _failed(self, error: Exception) -> float:
        """What follows: told, and after how many seconds to try again."""
        match error:
            case StreamReset():
                _log.info("an operator has reset a stream", source=self.name, stream=str(error))
                return 0.0
            case TopicsPaused():
                self._paused_topics = error.names
                return 0.0
            case LeaseLost():
                state: ReaderState = "standby"
            case BrokerUnavailable():
                state = "away"
            case _:
                state = "failing"
        self._failures += 1
        ours = isinstance(error, BrokerUnavailable | LeaseLost)
        trouble = str(error) if ours else explain(error).error
        if trouble != self._trouble:
            _log.warning(
                "a source of messages is not read",
                source=self.name,
                broker=self._settings.broker,
                reason=trouble,
            )
        await self._do_quietly(partial(self._tell, state, trouble))
        await self._do_quietly(self._give_back)
        return _WAITS.delay(self._failures, random)

    async def _lost(self, error: StreamLost) -> float:
        """Told once; then wait until an operator has reset a stream, or it is time to look."""
        trouble = str(error)
        if trouble != self._trouble:
            _log.error(
                "a source of messages has lost its stream",
                source=self.name,
                broker=self._settings.broker,
                reason=trouble,
            )
        await self._do_quietly(partial(self._tell, "lost", trouble))
        until = time.monotonic() + _LOST
        while time.monotonic() < until and not self._stopping.is_set():
            with anyio.move_on_after(_LOOK):
                await self._stopping.wait()
            try:
                await self._streams.watch()
                if not await self._has_lease():
                    break
            except StreamReset:
                break
            except Exception:  # noqa: BLE001 - the database is away, too: the next try will tell
                break
        return 0.0

    async def _do_quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        """What is worth a try where something failed already."""
        try:
            with anyio.move_on_after(_CLOSING):
                await work()
        except Exception as error:  # noqa: BLE001 - most likely for the same reason
            _log.debug("not told", source=self.name, reason=explain(error).error)

    # ------------------------------------------------------------------------------ what is told

    async def _tell(self, state: ReaderState, trouble: str | None) -> None:
        """Show a state, and why it does not read; that it reads is logged."""
        changed = state != self._state or trouble != self._trouble
        if state == "reading" and self._state != "reading":
            _log.info(
                "a source of messages is read", source=self.name, broker=self._settings.broker
            )
        if state != self._state:
            self._metrics.state(state)
            self._lag = None
        self._state, self._trouble = state, trouble
        if changed or time.monotonic() >= self._shown_at + _SHOW:
            await self._show(state)

    async def _show(self, state: ReaderState) -> None:
        self._shown_at = time.monotonic()
        async with borrow(self._parts.pool) as connection:
            await message_readers.show(
                connection,
                self._parts.sql,
                self.name,
                self._parts.me.id,
                broker=self._settings.broker,
                state=state,
                trouble=self._trouble,
                lag=self._lag,
            )

    async def _leave(self) -> None:
        """Give the lease back, so that another worker goes on at once."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING):
            await self._do_quietly(self._give_back)

    def _unopened(self) -> OpenedStreams:
        parts = self._parts
        given = (parts.pool, parts.sql, self.name, self._settings.begin, parts.me.id)
        return OpenedStreams(*given, grouped=self._compiled.grouped)
