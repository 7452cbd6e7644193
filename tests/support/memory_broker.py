"""A broker in the test's own process, by inboxd's contract: for the order of calls, and faults.

    broker = MemoryBroker()
    broker.put({"n": 1})
    await broker.until_acknowledged(1)

Tests of the real brokers are in `tests/messages`. Promises: a consumer gets each message once:
those after the stored position, or those that are not acknowledged. The next consumer gets again
what the last one did not finish. With positions and one stream it behaves as NATS, with partitions
as Kafka, without positions as RabbitMQ.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from inboxd.brokers.contract import IncomingMessage, Stored, StreamPosition
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker, MessageSource
from tests.support.waiting import WITHIN, bounded


@dataclass
class MemoryBroker:
    """The broker. streams: the messages of each, in order. positions: whether messages have any."""

    positions: bool = True
    identity: str = "i-1"
    streams: dict[str, list[IncomingMessage]] = field(default_factory=dict)
    acknowledged: list[IncomingMessage] = field(default_factory=list)
    # Whether a consumer gets unacknowledged messages again, though they are stored.
    rewinds: bool = False
    # The calls, in order: open, receive N, acknowledge N, close.
    calls: list[str] = field(default_factory=list)
    consumers: "set[MemoryConsumer]" = field(default_factory=set)
    most_consumers: int = 0
    # Raised by the next open, receive or acknowledge; once, or each time if `stays`.
    trouble: dict[str, Exception] = field(default_factory=dict)
    stays: bool = False
    # The reason why a consumer with these settings cannot be opened; None: it can.
    on_open: Callable[[MessageSource], Exception | None] = lambda _: None
    # Called with the messages before they are acknowledged.
    on_acknowledge: Callable[[Sequence[IncomingMessage]], Any] = lambda _: None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, *bodies: Any, stream: str = "results", **given: Any) -> None:
        """Add messages to a stream. A body is sent as JSON; bytes are sent unchanged."""
        messages = self.streams.setdefault(stream, [])
        for body in bodies:
            number = len(messages) + 1
            messages.append(
                IncomingMessage(
                    stream=stream,
                    position=number if self.positions else None,
                    identity=self.identity if self.positions else "",
                    body=body if isinstance(body, bytes) else orjson.dumps(body),
                    sent_to=stream,
                    token=number,
                    **({} if self.positions else {"id": f"m-{number}"}) | given,
                )
            )
        self.notify()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def fail(self, call: str) -> None:
        """Raise the error that the test has set for this call."""
        if (error := self.trouble.get(call)) is not None:
            if not self.stays:
                del self.trouble[call]
            raise error

    def lose(self) -> None:
        for consumer in self.consumers:
            consumer.lost = True
        self.notify()

    async def until(self, met: Callable[[], bool], within: float = WITHIN) -> None:
        """Wait until a condition on the broker holds."""
        with bounded(within):
            while not met():
                await self.changed.wait()

    async def until_acknowledged(self, count: int) -> None:
        """Wait until this many different messages are acknowledged."""
        await self.until(lambda: len({id(each) for each in self.acknowledged}) >= count)

    async def open_consumer(
        self, _name: str, _broker: Broker, _source: str, settings: MessageSource, stored: Stored
    ) -> "MemoryConsumer":
        self.calls.append("open")
        consumer = MemoryConsumer(self, settings)
        for stream, messages in self.streams.items() if self.positions else ():
            end = StreamPosition(len(messages), self.identity)
            found = await stored(stream, end)
            consumer.behind[stream] = 0 if found is None else found.position
            if self.rewinds:
                done = {id(each) for each in self.acknowledged}
                consumer.behind[stream] = sum(id(each) in done for each in messages)
        self.fail("open")
        if (error := self.on_open(settings)) is not None:
            raise error
        self.consumers.add(consumer)
        self.most_consumers = max(self.most_consumers, len(self.consumers))
        self.notify()
        return consumer


class MemoryConsumer:
    def __init__(self, broker: MemoryBroker, settings: MessageSource) -> None:
        self.behind: dict[str, int] = {}
        self.lost = False
        self._broker = broker
        self._prefetch = settings.prefetch
        self._held = 0

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        broker = self._broker
        if not (found := self._next(most)):
            try:
                async with asyncio.timeout(within):
                    await broker.changed.wait()
            except TimeoutError:
                pass
            found = self._next(most)
        self._check()
        broker.fail("receive")
        if found:
            broker.calls.append(f"receive {len(found)}")
            broker.notify()
        for each in found:
            self._held += 1
            self.behind[each.stream] = self.behind.get(each.stream, 0) + 1
        return found

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        self._check()
        self._broker.fail("acknowledge")
        self._broker.on_acknowledge(messages)
        self._held -= len(messages)
        self._broker.acknowledged += messages
        self._broker.calls.append(f"acknowledge {len(messages)}")
        self._broker.notify()

    async def lag(self) -> int | None:
        return len(self._next(10**6))

    async def close(self) -> None:
        self._broker.consumers.discard(self)
        self._broker.calls.append("close")
        self._broker.notify()

    def _check(self) -> None:
        if self.lost:
            raise BrokerUnavailable("the broker 'memory' has hung up")

    def _next(self, most: int) -> list[IncomingMessage]:
        """The next messages, each stream in order."""
        most = min(most, self._prefetch - self._held) if most < 10**6 else most
        found: list[IncomingMessage] = []
        for stream, messages in self._broker.streams.items():
            begin = self.behind.get(stream, 0)
            if not self._broker.positions and stream not in self.behind:
                done = {id(each) for each in self._broker.acknowledged}
                begin = sum(id(each) in done for each in messages)
                self.behind[stream] = begin
            found += messages[begin : begin + max(0, most - len(found))]
        return found
