"""A consumer of a JetStream stream: what it reads, from where, in which order, and how much."""

import time
from hashlib import sha256

import pytest
from nats.js import JetStreamContext

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import LeftOutBody
from inboxd.brokers.nats import consumer as module
from inboxd.brokers.nats import opening
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker, MessageSource
from tests.brokers.nats.conftest import Stream, broker_at, make_stream
from tests.brokers.nats.following import (
    DURABLE,
    StoredMessages,
    consumer_at,
    follows,
    receive_until_it_fails,
    store,
    take,
)
from tests.brokers.nats.publishing import Told, a_message, publisher_at
from tests.support import eventually
from tests.support.nats import NatsServer, nats_client, nats_server
from tests.support.verdicts import safety
from tests.support.waiting import bounded, patient

pytestmark = pytest.mark.anyio

_WITHIN = patient()


async def test_messages_come_in_order_from_behind_the_stored_position(
    broker: Broker, stream: Stream
) -> None:
    await stream.fill(10)
    settings, stored = follows(stream), StoredMessages()
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 4)
        await take(consumer, 3)  # they are lost with their worker
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 6)
        assert await consumer.receive(10, 0.05) == []
    with safety():
        assert stored.numbers == list(range(1, 11))
        assert stored.passed_over == 0


async def test_a_message_has_the_metadata_of_the_broker(broker: Broker, stream: Stream) -> None:
    headers = {"Nats-Msg-Id": "an id", "Content-Type": "text/plain", "X-A": "1: ä"}
    await stream.js.publish(f"{stream.prefix}.a", b"body", headers=headers)
    await stream.js.publish(f"{stream.prefix}.b", b"")
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        first, second = await take(consumer, 2)
    assert (first.stream, first.position, first.body) == (stream.name, 1, b"body")
    assert (first.sent_to, first.id, first.key) == (f"{stream.prefix}.a", "an id", None)
    assert first.headers == {"nats-msg-id": "an id", "content-type": "text/plain", "x-a": "1: ä"}
    assert first.content_type == "text/plain"
    assert first.sent_at is not None
    assert 0 < time.time() - first.sent_at < 60
    assert (second.sent_to, second.headers, second.content_type, second.id) == (
        f"{stream.prefix}.b",
        {},
        None,
        None,
    )


async def test_a_header_that_is_not_utf_8_is_read_as_latin_1(
    broker: Broker, stream: Stream
) -> None:
    client = stream.js._nc
    head = b"NATS/1.0\r\nA: \xe4\r\nB: \xc3\xa4\r\n\r\n"
    await client._send_command(
        b"HPUB %b.a %d %d\r\n%b\r\n" % (stream.prefix.encode(), len(head), len(head), head)
    )
    await client.flush()
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        (message,) = await take(consumer, 1)
    assert message.headers == {"a": "ä", "b": "ä"}


async def test_a_cloud_event_is_the_same_when_it_comes_back(broker: Broker, stream: Stream) -> None:
    given = {"source": '/bets "ä" 100%', "subject": "\\Größe", "traceparent": "00-ab-cd-01"}
    async with publisher_at(broker) as publisher:
        await publisher.publish([a_message(f"{stream.prefix}.a", attributes=given)], Told())
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        (message,) = await take(consumer, 1)
    event = cloud_events.read(message.headers, (cloud_events.NATS_PREFIX,))
    assert event is not None
    assert (event.source, event.subject) == (given["source"], given["subject"])
    assert event.extensions == {"traceparent": given["traceparent"]}
    assert event.datacontenttype == "application/json"


async def test_a_filter_lets_its_subjects_pass(broker: Broker, stream: Stream) -> None:
    for subject in ("a.1", "b", "a.2", "b", "a.3"):
        await stream.js.publish(f"{stream.prefix}.{subject}", b"1")
    settings = follows(stream, "a.*")
    stored = StoredMessages()
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 2)
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 1)
        assert await consumer.receive(10, 0.05) == []
    with safety():
        assert [message.position for message in stored.messages] == [1, 3, 5]


async def test_several_filters_need_a_newer_server(broker: Broker, stream: Stream) -> None:
    settings = follows(stream, "a", "b")
    with pytest.raises(BrokerUnavailable, match="allows one subject per consumer"):
        async with consumer_at(broker, settings, StoredMessages()):
            pass


async def test_a_source_may_begin_with_the_newest_message(broker: Broker, stream: Stream) -> None:
    await stream.fill(3)
    stored = StoredMessages(newest=True)
    async with consumer_at(broker, follows(stream), stored) as consumer:
        assert await consumer.receive(10, 0.05) == []
        await stream.js.publish(f"{stream.prefix}.a", b"4")
        await take(consumer, 1)  # without storing it
    await stream.js.publish(f"{stream.prefix}.a", b"5")
    async with consumer_at(broker, follows(stream), stored) as consumer:
        await store(consumer, stored, 2)
    with safety():
        assert stored.numbers == [4, 5]


async def test_the_server_sends_at_most_prefetch_messages(broker: Broker, stream: Stream) -> None:
    await stream.fill(30)
    settings = follows(stream, prefetch=10)
    stored = StoredMessages()
    async with consumer_at(broker, settings, stored) as consumer:
        page = await take(consumer, 10)
        assert await consumer.receive(10, 0.05) == []
        assert (await stream.js.consumer_info(stream.name, DURABLE)).num_ack_pending == 10
        assert await consumer.lag() == 20
        stored.store(page)
        await consumer.acknowledge(page)
        await store(consumer, stored, 10)
        await store(consumer, stored, 10)
        assert await consumer.lag() == 0
    with safety():
        assert stored.numbers == list(range(1, 31))


async def test_the_server_sends_at_most_the_bytes_of_two_pages(
    broker: Broker, stream: Stream
) -> None:
    for _ in range(12):
        await stream.js.publish(f"{stream.prefix}.a", b"x" * 1000)
    settings = follows(stream, page_bytes=2000)
    stored = StoredMessages()
    async with consumer_at(broker, settings, stored) as consumer:
        page = await take(consumer, 3)  # with their subjects, four are more than 4,000 bytes
        assert await consumer.receive(10, 0.05) == []
        assert await consumer.lag() == 9
        stored.store(page)
        await consumer.acknowledge(page)
        with bounded():
            while len(stored.messages) < 12:
                page = [*await consumer.receive(10, _WITHIN)]
                assert len(page) <= 3
                stored.store(page)
                await consumer.acknowledge(page)
        assert await consumer.lag() == 0
    with safety():
        assert [message.position for message in stored.messages] == [*range(1, 13)]
        assert stored.passed_over == 0


async def test_a_message_larger_than_the_limit_of_bytes_comes_alone(
    broker: Broker, stream: Stream
) -> None:
    sizes = [10, 9000, 10, 9000, 9000, 10]
    for size in sizes:
        await stream.js.publish(f"{stream.prefix}.a", b"x" * size)
    stored, held = StoredMessages(), []
    async with consumer_at(broker, follows(stream, page_bytes=2000), stored) as consumer:
        with bounded():
            while len(stored.messages) < len(sizes):
                page = await consumer.receive(10, _WITHIN)
                held.append([len(message.body) for message in page])
                stored.store(page)
                await consumer.acknowledge(page)
    with safety():
        assert [len(message.body) for message in stored.messages] == sizes
    assert [9000] in held
    assert all(each == [9000] for each in held if 9000 in each)


async def test_a_request_whose_bytes_are_all_used_is_followed_by_another(
    broker: Broker, stream: Stream
) -> None:
    """The server then ends the request without a status."""
    await stream.fill(1)
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        (first,) = await take(consumer, 1)
    assert isinstance(first.token, bytes)
    # Nine messages of the same size: each body is one digit, and each reply subject as long.
    size = len(first.sent_to) + len(first.token) + 1
    await stream.fill(8)
    stored = StoredMessages()
    settings = follows(stream, page_bytes=size)  # at most two messages are held
    async with consumer_at(broker, settings, stored) as consumer:
        with bounded():
            for _ in range(9):
                await store(consumer, stored, 1)
    with safety():
        assert [message.position for message in stored.messages] == [*range(1, 10)]


async def test_a_body_that_is_too_large_is_kept_as_size_and_hash(
    broker: Broker, stream: Stream
) -> None:
    bodies = [b"x" * 1000, b"x" * 1001]
    for body in bodies:
        await stream.js.publish(f"{stream.prefix}.a", body, headers={"a": "b"})
    async with consumer_at(broker, follows(stream, max_body=1000), StoredMessages()) as consumer:
        small, large = await take(consumer, 2)
    assert (small.body, small.left_out) == (bodies[0], None)
    assert (large.body, large.headers) == (b"", {"a": "b"})
    assert large.left_out == LeftOutBody(1001, sha256(bodies[1]).hexdigest())


async def test_messages_that_came_and_were_not_received_count_as_lag(
    broker: Broker, stream: Stream
) -> None:
    await stream.fill(5)
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        await take(consumer, 2)
        assert await consumer.lag() == 3


async def test_a_redelivery_while_the_first_one_is_stored_is_stored_once(
    broker: Broker, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_ACK_WAIT_NANOSECONDS", 10**8)
    await stream.fill(10)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream), stored) as consumer:
        page = await take(consumer, 6)

        async def redelivered() -> bool:  # all ten, before the slow commit is done
            info = await stream.js.consumer_info(stream.name, DURABLE)
            return bool(info.num_redelivered == 10 and info.delivered.consumer_seq >= 20)

        await eventually(redelivered)
        stored.store(page)
        await consumer.acknowledge(page)
        await store(consumer, stored, 4)
        await stream.js.publish(f"{stream.prefix}.a", b"11")
        await store(consumer, stored, 1)
    with safety():
        assert stored.numbers == list(range(1, 12))
        assert stored.passed_over == 0

    async def all_acknowledged() -> bool:
        info = await stream.js.consumer_info(stream.name, DURABLE)
        return (info.num_ack_pending, info.ack_floor.stream_seq) == (0, 11)

    await eventually(all_acknowledged)


async def test_unstored_messages_of_another_reader_come_to_its_successor(
    broker: Broker, stream: Stream
) -> None:
    await stream.fill(10)
    settings, stored = follows(stream), StoredMessages()
    async with consumer_at(broker, settings, stored) as older:
        had = await take(older, 5)
        async with consumer_at(broker, settings, stored) as newer:
            with pytest.raises(BrokerUnavailable, match="another worker reads it now"):
                await receive_until_it_fails(older)
            with pytest.raises(BrokerUnavailable):
                await older.acknowledge(had)
            await store(newer, stored, 10)
    with safety():
        assert stored.numbers == list(range(1, 11))


async def test_a_silent_server_is_unavailable(
    server: NatsServer, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.1)
    broker = broker_at(server.address, connect_timeout="1h")
    async with consumer_at(broker, follows(stream), StoredMessages()) as consumer:
        for _ in range(3):  # while it answers, it is not silent
            assert await consumer.receive(10, 0.15) == []
        with server.stopped(), pytest.raises(BrokerUnavailable, match="no heartbeat within"):
            await consumer.receive(10, _WITHIN)
        with server.stopped(), bounded():
            await consumer.close()


async def test_requests_are_renewed_before_they_end(
    broker: Broker, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.4)
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.1)
    stored = StoredMessages()
    async with consumer_at(broker, follows(stream), stored) as consumer:
        for _ in range(5):
            assert await consumer.receive(10, 0.2) == []
            await eventually(lambda: _is_waited_for(stream))
        await stream.fill(3)
        await store(consumer, stored, 3)
    with safety():
        assert stored.numbers == [1, 2, 3]


async def test_a_missing_stream_is_named(broker: Broker, js: JetStreamContext) -> None:
    with pytest.raises(BrokerUnavailable, match="there is no stream MISSING: make it"):
        async with consumer_at(broker, MessageSource(nats_stream="MISSING"), StoredMessages()):
            pass


async def test_limits_that_remove_unstored_messages_do_not_fill_memory(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msgs=5)
    await stream.fill(5)
    async with consumer_at(broker, follows(stream, prefetch=4), StoredMessages()) as consumer:
        await take(consumer, 4)
        await stream.fill(20)  # for the server no message is unacknowledged

        async def no_more_is_asked_for() -> bool:
            info = await js.consumer_info(stream.name, DURABLE)
            return (info.num_ack_pending, info.num_waiting) == (0, 0)

        await eventually(no_more_is_asked_for)
        assert (await js.consumer_info(stream.name, DURABLE)).delivered.consumer_seq == 5


async def test_a_missing_permission_is_named() -> None:
    users = (
        "authorization { users: [{ user: inbox, password: pw, permissions: { publish: { deny: "
        '["$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.STREAM.INFO.THEIRS"] } } }, { user: admin, '
        "password: pw }] }"
    )
    with nats_server(users) as server:
        async with nats_client(server, user="admin", password="pw") as client:
            await client.jetstream().add_stream(name="OURS", subjects=["ours.>"])
        broker = broker_at(server.address, user="inbox", password="pw", connect_timeout="500ms")
        with pytest.raises(BrokerUnavailable, match=r"permissions violation.*stream.info.theirs"):
            async with consumer_at(broker, MessageSource(nats_stream="THEIRS"), StoredMessages()):
                pass
        settings = MessageSource(nats_stream="OURS")
        async with consumer_at(broker, settings, StoredMessages()) as consumer:
            with pytest.raises(BrokerUnavailable, match=r"violation.*: grant the broker's user"):
                await receive_until_it_fails(consumer)


async def test_an_acknowledgement_shows_in_the_consumer_of_the_source(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js)
    await stream.fill(5)
    stored = StoredMessages()
    settings = follows(stream, nats_durable="mine")
    async with consumer_at(broker, settings, stored) as consumer:
        await store(consumer, stored, 3)
        await consumer.acknowledge([])

    async def acknowledged() -> bool:
        info = await js.consumer_info(stream.name, "mine-orders")
        return bool(info.ack_floor.stream_seq == 3)

    await eventually(acknowledged)


async def _is_waited_for(stream: Stream) -> bool:
    return bool((await stream.js.consumer_info(stream.name, DURABLE)).num_waiting == 1)
