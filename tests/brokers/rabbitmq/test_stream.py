"""A stream of RabbitMQ: read from the stored position, and lost if that is gone."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractQueue
from pamqp.common import FieldTable

from inboxd.brokers.contract import Consumer, IncomingMessage, StreamPosition
from inboxd.brokers.rabbitmq import open_consumer
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource
from tests.support.verdicts import Late, safety

pytestmark = pytest.mark.anyio

_WITHIN = 30.0
_STREAM: FieldTable = {"x-queue-type": "stream"}
# Small segments, so that retention removes some of them.
_SMALL: FieldTable = {
    **_STREAM,
    "x-max-length-bytes": 2000,
    "x-stream-max-segment-size-bytes": 1000,
}


class Positions:
    """The stored position of one stream, as `inbound/messages/streams.py` keeps it."""

    def __init__(self, at: StreamPosition | None = None, begin: str = "oldest") -> None:
        self.at = at
        self._begin = begin

    async def __call__(
        self, stream: str, end: StreamPosition | None = None
    ) -> StreamPosition | None:
        """The stored position, as of `Stored`."""
        del stream
        if self.at is None and self._begin == "newest":
            self.at = end
        return self.at

    def store(self, message: IncomingMessage) -> None:
        """Store a message, and with it all before it."""
        assert message.position is not None
        self.at = StreamPosition(message.position, message.identity)


@pytest.fixture
async def stream(channel: AbstractChannel) -> AsyncIterator[AbstractQueue]:
    """A stream of the test's own."""
    made = await _declared(channel, uuid.uuid4().hex)
    yield made
    await made.delete(if_unused=False, if_empty=False)


async def _declared(
    channel: AbstractChannel, name: str, arguments: FieldTable = _STREAM
) -> AbstractQueue:
    return await channel.declare_queue(name, durable=True, arguments=arguments)


async def _fill(channel: AbstractChannel, name: str, first: int, last: int, size: int = 1) -> None:
    for number in range(first, last + 1):
        message = Message(str(number).encode().rjust(size), message_id=f"m{number}")
        await channel.default_exchange.publish(message, name)


@asynccontextmanager
async def _reading(
    broker: Broker, name: str, positions: Positions, **more: object
) -> AsyncIterator[Consumer]:
    given = {"rabbitmq_stream": name, "broker": "main", **more}
    settings = MessageSource.model_validate(given)
    consumer = await open_consumer("main", broker, "orders", settings, positions)
    try:
        yield consumer
    finally:
        await consumer.close()


async def _received(consumer: Consumer, count: int) -> list[IncomingMessage]:
    found: list[IncomingMessage] = []
    while len(found) < count:
        page = await consumer.receive(count - len(found), _WITHIN)
        if not page:
            raise Late(f"only {len(found)} of {count} came")
        found += page
        await consumer.acknowledge(page)
    return found


def _numbers(messages: list[IncomingMessage]) -> list[int]:
    return [int(each.body) for each in messages]


async def test_a_stream_is_read_from_its_oldest_message_on(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 49)
    async with _reading(broker, stream.name, Positions(), prefetch=10, page_rows=10) as consumer:
        found = await _received(consumer, 50)
    with safety():
        assert _numbers(found) == [*range(50)]
        assert [each.position for each in found] == [*range(50)]
    assert {each.stream for each in found} == {stream.name}
    assert found[7].id == "m7"


async def test_a_reader_continues_behind_the_stored_position(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 9)
    positions = Positions()
    async with _reading(broker, stream.name, positions) as consumer:
        positions.store((await _received(consumer, 5))[-1])
    async with _reading(broker, stream.name, positions) as consumer:
        with safety():
            assert _numbers(await _received(consumer, 5)) == [5, 6, 7, 8, 9]
        positions.store((await _latest(broker, stream.name))[-1])
        await _fill(channel, stream.name, 10, 10)
        with safety():
            assert _numbers(await _received(consumer, 1)) == [10]
    async with _reading(broker, stream.name, positions) as consumer:
        with safety():
            assert _numbers(await _received(consumer, 1)) == [10]


async def _latest(broker: Broker, name: str) -> list[IncomingMessage]:
    async with _reading(broker, name, Positions()) as consumer:
        return await _received(consumer, 10)


async def test_newest_begins_behind_existing_messages(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 9)
    positions = Positions(begin="newest")
    async with _reading(broker, stream.name, positions):
        assert positions.at is not None
        assert positions.at.position == 9
    await _fill(channel, stream.name, 10, 11)  # no consumer reads meanwhile
    async with _reading(broker, stream.name, positions) as consumer:
        with safety():
            assert _numbers(await _received(consumer, 2)) == [10, 11]


async def test_a_position_of_an_operator_is_taken_as_it_is(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 9)
    async with _reading(broker, stream.name, Positions(StreamPosition(6, ""))) as consumer:
        with safety():
            assert _numbers(await _received(consumer, 3)) == [7, 8, 9]


async def test_a_stream_that_was_made_anew_is_lost(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 9)
    positions = Positions()
    async with _reading(broker, stream.name, positions) as consumer:
        positions.store((await _received(consumer, 10))[-1])
    await stream.delete(if_unused=False, if_empty=False)
    quick = broker.model_copy(update={"connect_timeout": broker.connect_timeout / 5})
    await _is_lost(quick, stream.name, positions, "the stream does not exist")
    await _declared(channel, stream.name)
    await _is_lost(quick, stream.name, positions, "it is empty")
    await _fill(channel, stream.name, 100, 104)
    await _is_lost(quick, stream.name, positions, "it ends at 4")
    await _fill(channel, stream.name, 105, 120)
    await _is_lost(broker, stream.name, positions, "the message there is another one")


async def _is_lost(broker: Broker, name: str, positions: Positions, why: str) -> None:
    with pytest.raises(StreamLost) as told:
        async with _reading(broker, name, positions):
            pass
    assert why in str(told.value)
    assert f"inboxd messages reset orders {name} --to" in str(told.value)


async def test_messages_removed_by_retention_are_a_loss(
    broker: Broker, channel: AbstractChannel
) -> None:
    name = uuid.uuid4().hex
    stream = await _declared(channel, name, _SMALL)
    await _fill(channel, name, 0, 4)
    positions = Positions()
    async with _reading(broker, name, positions) as consumer:
        positions.store((await _received(consumer, 3))[-1])
    await _fill(channel, name, 5, 200, size=200)
    # Retention runs when another segment begins, so a removal shows a little later.
    for _ in range(20):
        if await _is_removed(broker, name, positions):
            break
        await _fill(channel, name, 201, 220, size=200)
    else:
        raise Late("retention removes nothing")
    await stream.delete(if_unused=False, if_empty=False)


async def _is_removed(broker: Broker, name: str, positions: Positions) -> bool:
    """Whether the stream is lost for that reason."""
    try:
        async with _reading(broker, name, positions):
            return False
    except StreamLost as error:
        return "what followed was removed (retention)" in str(error)


async def test_a_missing_stream_is_named(broker: Broker) -> None:
    with pytest.raises(BrokerUnavailable, match="declare it, or correct rabbitmq_stream"):
        async with _reading(broker, uuid.uuid4().hex, Positions()):
            pass


async def test_a_queue_is_not_read_as_a_stream(broker: Broker, channel: AbstractChannel) -> None:
    queue = await channel.declare_queue(uuid.uuid4().hex, durable=True)
    await _fill(channel, queue.name, 0, 2)
    with pytest.raises(BrokerUnavailable, match="so it is not a stream: name it by rabbitmq_queue"):
        async with _reading(broker, queue.name, Positions()):
            pass
    await queue.delete(if_unused=False, if_empty=False)


async def test_a_stream_that_is_deleted_while_it_is_read_is_lost(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 0, 2)
    async with _reading(broker, stream.name, Positions()) as consumer:
        await _received(consumer, 3)
        await stream.delete(if_unused=False, if_empty=False)
        with pytest.raises(StreamLost, match="was deleted"):
            await consumer.receive(1, _WITHIN)


async def test_a_body_that_is_too_large_is_left_out_and_recognised_again(
    broker: Broker, channel: AbstractChannel, stream: AbstractQueue
) -> None:
    await _fill(channel, stream.name, 1, 2, size=2000)
    positions = Positions()
    async with _reading(broker, stream.name, positions, max_body="1KiB") as consumer:
        (message, _) = await _received(consumer, 2)
    assert (message.body, message.left_out and message.left_out.size) == (b"", 2000)
    positions.store(message)
    async with _reading(broker, stream.name, positions, max_body="1KiB") as consumer:
        (message,) = await _received(consumer, 1)
    with safety():
        assert message.position == 1
