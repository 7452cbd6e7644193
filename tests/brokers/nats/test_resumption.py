"""Continuing a JetStream stream, or finding it lost: no message is skipped in silence."""

import dataclasses
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest
from nats.js import JetStreamContext

from inboxd.brokers.contract import StreamPosition
from inboxd.brokers.nats import consumer as module
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource
from tests.brokers.nats.conftest import Stream, broker_at, make_stream
from tests.brokers.nats.following import (
    DURABLE,
    REMEDY,
    StoredMessages,
    consumer_at,
    follows,
    lost_by,
    receive_until_it_fails,
    store,
    stored_of,
    take,
)
from tests.support import eventually
from tests.support.nats import NatsServer, jetstream, nats_server
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.verdicts import safety
from tests.support.waiting import bounded, patient

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(server: NatsServer) -> Iterator[TcpProxy]:
    """A proxy before the server, whose connections a test can cut."""
    with tcp_proxy(server.host, server.port) as running:
        yield running


async def test_a_message_removed_before_it_was_stored_is_lost(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msgs=5)
    await stream.fill(5)
    stored = await stored_of(broker, follows(stream), 2)
    await stream.fill(2)  # it begins at 3 now
    async with consumer_at(broker, follows(stream), stored) as consumer:
        with safety():
            assert [each.position for each in await take(consumer, 5)] == [3, 4, 5, 6, 7]
    await stream.fill(1)
    assert await lost_by(broker, follows(stream), stored) == (
        f"source 'orders', stream {stream.name} of broker 'main' (nats at {broker.servers[0]}): it "
        "begins at 4 now: what followed position 2 was removed, by its limits, or by a purge. "
        + REMEDY.format(stream.name)
    )


async def test_a_stored_message_may_be_removed(broker: Broker, stream: Stream) -> None:
    await stream.fill(5)
    stored = await stored_of(broker, follows(stream), 5)
    await stream.js.purge_stream(stream.name)
    async with consumer_at(broker, follows(stream), stored) as consumer:
        assert await consumer.receive(10, 0.05) == []
        await stream.js.publish(f"{stream.prefix}.a", b"6")
        await store(consumer, stored, 1)
    with safety():
        assert stored.numbers == [1, 2, 3, 4, 5, 6]


async def test_another_stream_of_the_same_name_is_a_loss(broker: Broker, stream: Stream) -> None:
    await stream.fill(2)
    stored = await stored_of(broker, follows(stream), 2)
    await stream.js.delete_stream(stream.name)
    told = await lost_by(broker, follows(stream), stored)
    assert "position 2 is stored, but the stream does not exist" in told
    await stream.js.add_stream(name=stream.name, subjects=[f"{stream.prefix}.>"])
    await stream.fill(3)
    assert "of the stream created at 20" in await lost_by(broker, follows(stream), stored)


async def test_a_stream_that_ends_before_the_position_is_from_a_backup(
    broker: Broker, stream: Stream
) -> None:
    await stream.fill(5)
    stored = await stored_of(broker, follows(stream), 5)
    assert stored.position is not None
    stored.position = dataclasses.replace(stored.position, position=6)
    told = await lost_by(broker, follows(stream), stored)
    assert "position 6 is stored, but it ends at 5: it may be from a backup" in told


async def test_an_operators_position_is_taken_as_it_is(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msgs=3)
    await stream.fill(9)
    stored = StoredMessages()
    stored.position = StreamPosition(2, "")
    async with consumer_at(broker, follows(stream), stored) as consumer:
        await store(consumer, stored, 3)
    with safety():
        assert stored.numbers == [7, 8, 9]
    assert stored.position.identity != ""
    stored.position = StreamPosition(7, "")
    async with consumer_at(broker, follows(stream), stored) as consumer:
        with safety():
            assert [each.position for each in await take(consumer, 2)] == [8, 9]


async def test_a_stream_that_is_deleted_under_its_consumer_is_lost(
    broker: Broker, stream: Stream
) -> None:
    await stream.fill(3)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream), stored) as consumer:
        await store(consumer, stored, 3)
        await stream.js.delete_stream(stream.name)
        with pytest.raises(BrokerUnavailable, match="it was deleted, or another worker"):
            await consumer.receive(10, 10)
    assert "the stream does not exist" in await lost_by(broker, follows(stream), stored)


async def test_a_purge_of_waiting_messages_is_a_loss(
    broker: Broker, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.2)
    await stream.fill(5)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream, prefetch=2), stored) as consumer:
        await store(consumer, stored, 2)
        held = await take(consumer, 2)
        await stream.js.purge_stream(stream.name)
        stored.store(held)
        await consumer.acknowledge(held)
        with (
            safety(),
            pytest.raises(StreamLost, match="it begins at 6 now: what followed position 4"),
        ):
            await receive_until_it_fails(consumer)


async def test_a_purge_of_stored_messages_changes_nothing(
    broker: Broker, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.1)
    await stream.fill(5)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream), stored) as consumer:
        await store(consumer, stored, 5)
        await stream.js.purge_stream(stream.name)
        assert await consumer.receive(10, 0.25) == []
        await stream.js.publish(f"{stream.prefix}.a", b"6")
        await store(consumer, stored, 1)
    with safety():
        assert stored.numbers == [1, 2, 3, 4, 5, 6]


async def test_messages_removed_by_limits_under_a_running_consumer_are_a_loss(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msgs=5)
    await stream.fill(4)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream, prefetch=2), stored) as consumer:
        await store(consumer, stored, 2)
        held = await take(consumer, 2)
        await stream.fill(10)  # for example while the topic is paused
        stored.store(held)
        await consumer.acknowledge(held)
        with (
            safety(),
            pytest.raises(StreamLost, match=r"it begins at 10 now: what followed position [45] "),
        ):
            await take(consumer, 3)
    await lost_by(broker, follows(stream), stored)


async def test_a_deleted_message_leaves_a_gap_and_no_more(broker: Broker, stream: Stream) -> None:
    await stream.fill(5)
    await stream.js.delete_msg(stream.name, 3)
    stored = await stored_of(broker, follows(stream), 4)
    with safety():
        assert stored.numbers == [1, 2, 4, 5]


async def test_a_rare_filter_outlives_removed_messages_of_others(
    broker: Broker, js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(module, "_NOTE_SECONDS", 0.0)
    stream = await make_stream(js, max_msgs=5)
    await stream.fill(1, "rare")
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream, "rare"), stored) as consumer:
        await store(consumer, stored, 1)
        await stream.fill(4, "often")

        async def noted() -> bool:
            assert await consumer.receive(10, 0.15) == []
            return "nothing came up to 5" in await _description(stream)

        await eventually(noted)
    await stream.fill(5, "often")  # it begins at 6, and ends at 10
    async with consumer_at(broker, follows(stream, "rare"), stored) as consumer:
        assert await consumer.receive(10, 0.15) == []
        await stream.fill(1, "rare")
        await store(consumer, stored, 1)
    with safety():
        assert [message.position for message in stored.messages] == [1, 11]
    await stream.fill(7, "often")  # no consumer looked meanwhile: a rare one may be among them
    told = await lost_by(broker, follows(stream, "rare"), stored)
    assert "it begins at 14 now: what followed position 11 was removed" in told


async def test_a_note_does_not_count_for_a_changed_filter(
    broker: Broker, js: JetStreamContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(module, "_NOTE_SECONDS", 0.0)
    stream = await make_stream(js)
    await stream.fill(1, "rare")
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream, "rare"), stored) as consumer:
        await store(consumer, stored, 1)
        await stream.fill(3, "often")

        async def noted() -> bool:
            assert await consumer.receive(10, 0.15) == []
            return "nothing came up to 4" in await _description(stream)

        await eventually(noted)
    async with consumer_at(broker, follows(stream, "often"), stored) as consumer:
        await store(consumer, stored, 3)
    with safety():
        assert [message.position for message in stored.messages] == [1, 2, 3, 4]


async def test_a_filter_does_not_hide_removals_under_a_running_consumer(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msgs=5)
    await stream.fill(2, "mine")
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream, "mine", prefetch=2), stored) as consumer:
        held = await take(consumer, 2)
        await stream.fill(3, "mine")
        await stream.fill(9, "others")
        await stream.fill(1, "mine")
        stored.store(held)
        await consumer.acknowledge(held)
        with safety(), pytest.raises(StreamLost, match=r"what followed position [23] was removed"):
            await take(consumer, 3)


async def test_lost_acknowledgements_bring_no_message_twice(
    proxy: TcpProxy, stream: Stream
) -> None:
    await stream.fill(10)
    stored = StoredMessages()
    async with consumer_at(broker_at(proxy.address), follows(stream), stored) as consumer:
        await store(consumer, stored, 3)
        await eventually(lambda: _acknowledged(stream, 3))
        with proxy.swallow("to_server"):
            await store(consumer, stored, 4)
        with pytest.raises(BrokerUnavailable):
            await receive_until_it_fails(consumer)
    assert await _acknowledged(stream, 3)
    async with consumer_at(broker_at(proxy.address), follows(stream), stored) as consumer:
        await store(consumer, stored, 3)
    with safety():
        assert stored.numbers == list(range(1, 11))
        assert stored.passed_over == 0


async def test_a_request_ends_when_the_connection_is_lost(proxy: TcpProxy, stream: Stream) -> None:
    broker = broker_at(proxy.address, connect_timeout="1h")
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        with proxy.hold("to_client"), bounded():
            async with anyio.create_task_group() as all_:
                all_.start_soon(consumer.lag)
                await anyio.lowlevel.checkpoint()
                proxy.cut()
        assert await consumer.lag() is None


async def test_a_delivery_to_another_client_is_read_again(broker: Broker, stream: Stream) -> None:
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream), stored) as consumer:
        thief = await stream.js.pull_subscribe_bind(DURABLE, stream.name)
        with bounded():
            async with anyio.create_task_group() as all_:
                all_.start_soon(thief.fetch, 1, patient())
                await eventually(lambda: _waiting(stream, 2))
                await stream.fill(4)  # they take turns
        with pytest.raises(BrokerUnavailable, match=r"is missing: reading starts again"):
            await receive_until_it_fails(consumer, stored)
    async with consumer_at(broker, follows(stream), stored) as consumer:
        await store(consumer, stored, 4 - len(stored.messages))
    with safety():
        assert stored.numbers == [1, 2, 3, 4]


async def test_a_server_killed_and_restarted_brings_each_message_once() -> None:
    stored, failures = StoredMessages(), []

    async def consume(broker: Broker, settings: MessageSource) -> None:
        while len(stored.messages) < 300:
            try:
                async with consumer_at(broker, settings, stored) as consumer:
                    while len(stored.messages) < 300:
                        page = await consumer.receive(7, 10)
                        stored.store(page)
                        await consumer.acknowledge(page)
            except BrokerUnavailable as error:
                failures.append(str(error))
                await anyio.sleep(0.01)

    with nats_server() as server:
        async with jetstream(server) as js:
            stream = await make_stream(js)
            await stream.fill(200)
        async with anyio.create_task_group() as all_:
            all_.start_soon(consume, broker_at(server.address), follows(stream))
            await anyio.to_thread.run_sync(server.stop, "KILL")
            await anyio.to_thread.run_sync(server.start)
            async with jetstream(server) as js:
                for number in range(201, 301):
                    await js.publish(f"{stream.prefix}.a", str(number).encode())
    with safety():
        assert stored.numbers == list(range(1, 301))
    assert failures


async def _description(stream: Stream) -> str:
    return (await stream.js.consumer_info(stream.name, DURABLE)).config.description or ""


async def _acknowledged(stream: Stream, position: int) -> bool:
    info = await stream.js.consumer_info(stream.name, DURABLE)
    return bool(info.ack_floor.stream_seq == position)


async def _waiting(stream: Stream, count: int) -> bool:
    return bool((await stream.js.consumer_info(stream.name, DURABLE)).num_waiting == count)
