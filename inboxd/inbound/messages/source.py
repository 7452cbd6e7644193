"""Runs one source of messages in one worker: waits for its turn, reads, and tries again.

Promises: a source whose broker does not divide its streams is read by one worker at a time, by a
lease; the next worker continues as soon as the first one leaves; a pause, or an outage of the
database or the broker, stops the reading, so that no messages are held during it; a lost stream
stops its source, reported once, until an operator resets the stream or the broker has it again.
Known limit: if a worker dies, its lease stays until the reaper notices. *See:* `reading.py`.
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

# Wait after a failure; the first waits are short, for example for a worker that takes over from
# another one.
_WAITS: Final = Exponential(base="500ms", cap="30s", jitter="half")
# Seconds between two checks of lease and streams, also while the worker waits for its turn.
_LOOK_SECONDS = 1.0
# Seconds between two checks of the pauses, while the source is paused.
_PAUSED_SECONDS = 0.25
# Seconds between two writes of an unchanged state, and between two measurements of the lag.
_SHOW_SECONDS = 5.0
# Seconds between two attempts to open a lost stream.
_LOST_SECONDS = 60.0
# Seconds for opening a consumer, which includes a question to the database, beyond
# `connect_timeout` of each server; and for closing one.
_OPENING_SECONDS, _CLOSING_SECONDS = 30.0, 5.0


class SourceReader:
    def __init__(self, parts: Parts, tasks: TaskGroup, name: str) -> None:
        """tasks: where pages are stored. Raises UsageError for settings that cannot be compiled."""
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
        # Paused topics to which events of the last page belong.
        self._paused_topics: frozenset[str] = frozenset()
        self._failures = 0
        self._state: ReaderState | None = None
        self._trouble: str | None = None
        self._lag: int | None = None
        self._shown_at = self._looked_at = self._measured_at = 0.0

    def stop(self) -> None:
        """Receive no more; `run` ends after the received messages are stored."""
        self._stopping.set()

    async def run(self) -> None:
        try:
            while not self._stopping.is_set():
                wait = await self._try()
                with anyio.move_on_after(wait):
                    await self._stopping.wait()
        finally:
            await self._leave()

    # ------------------------------------------------------------------------------------ turns

    async def _try(self) -> float:
        """Read, if this worker may; returns the seconds until the next attempt. Does not raise."""
        try:
            if why := self._paused():
                await self._report("paused", why)
                return _PAUSED_SECONDS
            if not await self._has_lease():
                await self._report("standby", None)
                return _LOOK_SECONDS
            await self._read()
        except StreamLost as error:
            return await self._handle_lost(error)
        except Exception as error:  # noqa: BLE001 - after any error there is a next attempt
            return await self._handle_failure(error)
        return 0.0

    async def _read(self) -> None:
        await self._show(self._state or "standby")  # raises, if the database is away
        self._streams = streams = self._unopened()
        consumer = await self._open(streams)
        try:
            storing = PageStoring(
                self._compiled, streams, self._parts.pool, self._parts.controls, self._metrics
            )
            given = (consumer, self._tasks, self._settings, streams, storing, self._metrics)
            reading = ConsumerReading(*given)
            await self._report("reading", None)
            self._looked_at, self._measured_at = time.monotonic(), 0.0
            await reading.run(partial(self._goes_on, consumer))
        finally:
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await consumer.close()

    async def _open(self, streams: OpenedStreams) -> Consumer:
        name, broker = self._settings.broker, self._broker
        limit = broker.connect_timeout.total_seconds() * len(broker.servers) + _OPENING_SECONDS
        opened: Consumer | None = None
        with anyio.move_on_after(limit):
            opened = await self._open_consumer(
                name, broker, self.name, self._settings, streams.stored
            )
        if opened is None:
            raise BrokerUnavailable(f"the broker {name!r} did not answer within {limit:g} s")
        return opened

    async def _goes_on(self, consumer: Consumer) -> bool:
        """Whether to receive more; asks the database at intervals. Raises StreamReset."""
        if self._stopping.is_set() or self._paused():
            return False
        now = time.monotonic()
        if now < self._looked_at + _LOOK_SECONDS:
            return True
        self._looked_at = now
        self._failures = 0  # reading has worked for a while
        if not await self._has_lease():
            return False
        await self._streams.watch()
        if now >= self._measured_at + _SHOW_SECONDS:
            self._measured_at = now
            self._lag = await consumer.lag()
            self._metrics.lag(self._lag)
            await self._show("reading")
        return True

    # --------------------------------------------------------------------- pauses and the lease

    def _paused(self) -> str | None:
        controls = self._parts.controls
        if self.name in controls.named("source"):
            return f"the source is paused; inboxd resume source {self.name}"
        paused = {*controls.named("topic")}
        self._paused_topics &= paused
        found = paused.intersection(self._settings.topics) | self._paused_topics
        if not found:
            return None
        return f"its events go to paused topics: {', '.join(sorted(found))}; inboxd resume topic"

    async def _has_lease(self) -> bool:
        """Whether this worker holds the lease, which it takes if it is free."""
        if self._compiled.grouped:
            return True
        me = self._parts.me.id
        async with borrow(self._parts.pool) as session:
            if not self._leased:
                await leases.make(session, self._lease)
            self._leased = True  # set before the answer, which may be lost
            self._leased = await leases.hold(session, self._lease, me)
        return self._leased

    async def _free_lease(self) -> None:
        if self._leased:
            async with borrow(self._parts.pool) as session:
                me = self._parts.me.id
                await leases.free(session, self._lease, me)
            self._leased = False

    # ---------------------------------------------------------------------------------- failures

    async def _handle_failure(self, error: Exception) -> float:
        """Report an error; returns the seconds until the next attempt."""
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
        await self._do_quietly(partial(self._report, state, trouble))
        await self._do_quietly(self._free_lease)
        return _WAITS.delay(self._failures, random)

    async def _handle_lost(self, error: StreamLost) -> float:
        """Report a lost stream once; then wait for an operator's reset, or for the next attempt."""
        trouble = str(error)
        if trouble != self._trouble:
            _log.error(
                "a source of messages has lost its stream",
                source=self.name,
                broker=self._settings.broker,
                reason=trouble,
            )
        await self._do_quietly(partial(self._report, "lost", trouble))
        until = time.monotonic() + _LOST_SECONDS
        while time.monotonic() < until and not self._stopping.is_set():
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._stopping.wait()
            try:
                await self._streams.watch()
                if not await self._has_lease():
                    break
            except StreamReset:
                break
            except Exception:  # noqa: BLE001 - the next attempt reports the outage
                break
        return 0.0

    async def _do_quietly(self, work: Callable[[], Awaitable[None]]) -> None:
        """Try to do something after a failure; log its error at debug level only."""
        try:
            with anyio.move_on_after(_CLOSING_SECONDS):
                await work()
        except Exception as error:  # noqa: BLE001 - most likely the reason is the same
            _log.debug(
                "a state could not be reported", source=self.name, reason=explain(error).error
            )

    # ------------------------------------------------------------------------------- reporting

    async def _report(self, state: ReaderState, trouble: str | None) -> None:
        changed = state != self._state or trouble != self._trouble
        if state == "reading" and self._state != "reading":
            _log.info(
                "a source of messages is read", source=self.name, broker=self._settings.broker
            )
        if state != self._state:
            self._metrics.state(state)
            self._lag = None
        self._state, self._trouble = state, trouble
        if changed or time.monotonic() >= self._shown_at + _SHOW_SECONDS:
            await self._show(state)

    async def _show(self, state: ReaderState) -> None:
        self._shown_at = time.monotonic()
        async with borrow(self._parts.pool) as session:
            await message_readers.show(
                session,
                self.name,
                self._parts.me.id,
                broker=self._settings.broker,
                state=state,
                trouble=self._trouble,
                lag=self._lag,
            )

    async def _leave(self) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
            await self._do_quietly(self._free_lease)

    def _unopened(self) -> OpenedStreams:
        parts = self._parts
        given = (parts.pool, self.name, self._settings.begin, parts.me.id)
        return OpenedStreams(*given, grouped=self._compiled.grouped)
