"""Consuming Kafka topics: from the stored position, in order, and never past missing messages."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Producer

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import LeftOutBody, StreamPosition
from inboxd.brokers.kafka import topic_watch
from inboxd.brokers.kafka.consumer import KafkaConsumer
from inboxd.errors import BrokerUnavailable, StreamLost
from tests.support import eventually
from tests.support import kafka as mock
from tests.support.kafka import MockKafka
from tests.support.kafka_published import outgoing, published, publisher_to
from tests.support.kafka_stored import WITHIN, Inbox, consumer_of, receive_for_ever, store_all
from tests.support.verdicts import safety
from tests.support.waiting import bounded, patient

pytestmark = pytest.mark.anyio


async def publish(kafka: MockKafka, topic: str, *bodies: str, keys: int = 1) -> None:
    async with publisher_to(kafka) as publisher:
        messages = [
            outgoing(topic, body, key=f"key-{number % keys}") for number, body in enumerate(bodies)
        ]
        assert not await published(publisher, messages)


async def committed(kafka: MockKafka, topic: str, partition: int) -> int | None:
    """The offset of the group that tools see."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=[*kafka.servers], group_id=topic, enable_auto_commit=False
    )
    consumer.assign([TopicPartition(topic, partition)])
    await consumer.start()
    try:
        offset: int | None = await consumer.committed(TopicPartition(topic, partition))
    finally:
        await consumer.stop()
    return offset


@asynccontextmanager
async def three_stored(kafka: MockKafka) -> AsyncIterator[tuple[str, Inbox, KafkaConsumer]]:
    """Yields a topic with three messages, where they are stored, and their open consumer."""
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"012")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 3)
        yield topic, inbox, consumer


async def loss(kafka: MockKafka, inbox: Inbox, topic: str) -> str:
    """Open a new consumer of a lost stream; returns the text of its error."""
    async with consumer_of(kafka, inbox, topic) as consumer:
        with pytest.raises(StreamLost) as told:
            await consumer.receive(10, WITHIN)
    return str(told.value)


async def test_a_message_is_what_was_published(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    sent = outgoing(topic, '{"a": 1}', key="Bétèlgeuse")
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [sent])
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 1)
    (message,) = inbox.messages
    assert (message.stream, message.position) == (f"{topic}/0", 0)
    assert (message.sent_to, message.key, message.body) == (topic, "Bétèlgeuse", sent.body)
    assert message.identity
    assert message.sent_at is not None
    assert message.headers["traceparent"] == "00-1-2-01"
    event = cloud_events.read(message.headers, ["ce_"])
    assert event is not None
    assert (event.id, event.source, event.type) == (sent.id, "/tests", "test.done")
    assert event.datacontenttype == message.content_type == "application/json"


async def test_messages_of_other_producers_are_taken_as_they_are(kafka: MockKafka) -> None:
    """Tombstones, keys and headers that are not UTF-8, names in capitals, gzip."""
    topic, inbox = kafka.topic(1), Inbox()
    async with AIOKafkaProducer(
        bootstrap_servers=[*kafka.servers], compression_type="gzip"
    ) as producer:
        await producer.send_and_wait(topic, None, key=b"\xff")
        headers = [("CE_Type", b"x"), ("Raw", b"\xe4"), ("none", None)]
        await producer.send_and_wait(topic, b"zipped" * 100, headers=headers)
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 2)
    tombstone, zipped = inbox.messages
    assert (tombstone.key, tombstone.body, tombstone.headers) == ("ÿ", b"", {})
    assert (zipped.key, zipped.body) == (None, b"zipped" * 100)
    assert zipped.headers == {"ce_type": "x", "raw": "ä"}


async def test_a_body_that_is_too_large_is_kept_as_size_and_hash(
    kafka: MockKafka,
) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    bodies = ["x" * 1000, "x" * 1001]
    await publish(kafka, topic, *bodies)
    async with consumer_of(kafka, inbox, topic, max_body=1000) as consumer:
        await store_all(consumer, inbox, 2)
    small, large = inbox.messages
    assert (small.body, small.left_out) == (bodies[0].encode(), None)
    assert (large.body, large.key) == (b"", "key-0")
    assert large.left_out == LeftOutBody(1001, sha256(bodies[1].encode()).hexdigest())


async def test_partitions_keep_their_order_over_restarts(kafka: MockKafka) -> None:
    topics, inbox = [kafka.topic(), kafka.topic(3)], Inbox()
    for turn in range(3):
        for topic in topics:
            await publish(kafka, topic, *[f"{turn * 300 + n}" for n in range(300)], keys=20)
        async with consumer_of(kafka, inbox, *topics) as consumer:
            await store_all(consumer, inbox, (turn + 1) * 600)
            assert await consumer.lag() == 0
    by_key: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for message in inbox.messages:
        by_key[message.sent_to, message.key].append(int(message.body))
    with safety():
        assert len(by_key) == 40
        for (_, key), came in by_key.items():
            assert came == [n for n in range(900) if f"key-{n % 20}" == key]


async def test_consumer_begins_behind_the_stored_position(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"0123456789")
    inbox.positions[f"{topic}/0"] = StreamPosition(6, "unknown")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 3)
        assert await consumer.receive(1000, 0.1) == []
    with safety():
        assert inbox.bodies() == [*"789"]
    # A database that was restored from a backup: later messages come again.
    inbox.positions[f"{topic}/0"] = StreamPosition(4, inbox.messages[0].identity)
    inbox.messages = []
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 5)
    with safety():
        assert inbox.bodies() == [*"56789"]


async def test_pages_have_at_most_the_requested_number_of_messages(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    await publish(kafka, topic, *map(str, range(100)), keys=20)
    async with consumer_of(kafka, inbox, topic) as consumer:
        while len(inbox.messages) < 100:
            page = await consumer.receive(7, WITHIN)
            assert 0 < len(page) <= 7
            inbox.store(page)
            left = 100 - len(inbox.messages)
            assert await consumer.lag() == left


async def test_newest_begins_behind_existing_messages_over_restarts(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox(begin="newest")
    await publish(kafka, topic, "old")
    async with consumer_of(kafka, inbox, topic) as consumer:

        async def begun() -> bool:
            assert await consumer.receive(10, 0.05) == []
            return await consumer.lag() == 0

        await eventually(begun)
    with safety():
        assert sorted(each.position for each in inbox.positions.values()) == [-1, 0]
    await publish(kafka, topic, *"0123", keys=4)
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 4)
    with safety():
        assert sorted(inbox.bodies()) == [*"0123"]


async def test_consumer_begins_with_the_oldest_despite_committed_offsets(kafka: MockKafka) -> None:
    """A restored database has no position of a partition in which its group is far ahead."""
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"012")
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as consumer:
        await store_all(consumer, inbox, 3)
    assert await committed(kafka, topic, 0) == 3
    empty = Inbox()
    async with consumer_of(kafka, empty, topic, kafka_group=topic) as consumer:
        await store_all(consumer, empty, 3)
    with safety():
        assert empty.bodies() == [*"012"]


async def test_acknowledged_offsets_are_committed_for_tools(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    kafka.coordinate(topic, 2)
    await publish(kafka, topic, *"0123", keys=2)
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as consumer:
        await store_all(consumer, inbox, 4)

        async def all_committed() -> bool:
            return [await committed(kafka, topic, each) for each in (0, 1)] == [
                sum(message.stream == f"{topic}/{each}" for message in inbox.messages) or None
                for each in (0, 1)
            ]

        await eventually(all_committed)


async def test_a_commit_that_fails_does_no_harm(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"0123456789")
    kafka.answer(mock.OFFSET_COMMIT, mock.NOT_ALLOWED, mock.CUT, mock.NOT_ALLOWED)
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as consumer:
        for _ in range(5):
            page = await consumer.receive(2, WITHIN)
            inbox.store(page)
            await consumer.acknowledge(page)
    kafka.heal()
    await publish(kafka, topic, "new")
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as consumer:
        await store_all(consumer, inbox, 11)
    with safety():
        assert inbox.bodies() == [*"0123456789", "new"]


async def test_a_position_that_retention_has_passed_is_lost(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"01234")
    await publish(kafka, topic, *"56789")
    kafka.forget(topic, 0, 5)
    inbox.positions[f"{topic}/0"] = StreamPosition(3, "unknown")
    assert await loss(kafka, inbox, topic) == (
        f"source 'source', stream {topic}/0: position 3 is stored, and the broker has 5 to 9: what "
        "followed was deleted (retention). Set where to continue: inboxd messages reset source "
        f"{topic}/0 --to oldest|newest|POSITION."
    )
    # The messages behind position 4 still exist.
    inbox.positions[f"{topic}/0"] = StreamPosition(4, "unknown")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 5)


async def test_a_position_of_an_operator_is_taken_as_it_is(kafka: MockKafka) -> None:
    """A position without an identity: of another Kafka topic, or older than all messages."""
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"012")
    kafka.forget(topic, 0, 1)
    inbox.positions[f"{topic}/0"] = StreamPosition(-1, "")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 2)
    with safety():
        assert inbox.bodies() == [*"12"]


async def test_a_position_that_another_reader_stores_meanwhile_is_not_beyond_the_end(
    kafka: MockKafka,
) -> None:
    topic, inbox = kafka.topic(1), Inbox()

    async def stored(stream: str, last: StreamPosition) -> StreamPosition:
        """The transaction of the other reader ends."""
        await publish(kafka, topic, *"012")
        return StreamPosition(last.position + 3, last.identity)

    inbox.stored = stored  # type: ignore[method-assign]
    async with consumer_of(kafka, inbox, topic) as consumer:
        assert await consumer.receive(10, 1) == []
        assert await consumer.lag() == 0


async def test_a_position_beyond_the_end_is_lost(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    await publish(kafka, topic, *"012")
    inbox.positions[f"{topic}/0"] = StreamPosition(3, "unknown")
    told = "position 3 is stored, and the broker has 0 to 2: it ends ear"
    assert told in await loss(kafka, inbox, topic)


async def test_a_topic_that_was_created_anew_is_lost(kafka: MockKafka) -> None:
    """Though it has grown past the stored position."""
    async with three_stored(kafka) as (topic, inbox, _):
        pass
    kafka.delete(topic)
    kafka.create(topic, 1)
    await publish(kafka, topic, *"abcdef")
    assert "the Kafka topic was created anew" in await loss(kafka, inbox, topic)


async def test_a_topic_that_is_created_anew_while_it_is_read_is_lost(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it has grown past the offset that is read next."""
    monkeypatch.setattr(topic_watch, "_LOOK_SECONDS", 0.1)
    async with three_stored(kafka) as (topic, inbox, consumer):
        kafka.delete(topic)
        kafka.create(topic, 1)
        # Does not await, so the consumer does not see the topic while it is empty.
        producer = Producer({"bootstrap.servers": ",".join(kafka.servers), "log_level": 0})
        for body in "abcdef":
            producer.produce(topic, body)
        assert producer.flush(patient()) == 0
        with (
            bounded(),
            safety(),
            pytest.raises(StreamLost, match="the Kafka topic was created anew while it was read"),
        ):
            await receive_for_ever(consumer, 0.1)
    assert "the Kafka topic was created anew" in await loss(kafka, inbox, topic)


async def test_brokers_without_ids_of_topics_are_read(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    kafka.speak(mock.METADATA, 9)
    await publish(kafka, topic, "0")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 1)
    kafka.speak(mock.METADATA, 12)
    assert inbox.messages[0].identity == "unknown"
    await publish(kafka, topic, "1")
    async with consumer_of(kafka, inbox, topic) as consumer:
        await store_all(consumer, inbox, 2)


async def test_a_topic_that_vanishes_while_it_is_read_is_lost(kafka: MockKafka) -> None:
    async with three_stored(kafka) as (topic, _, consumer):
        kafka.delete(topic)
        kafka.create(topic, 1)
        with (
            bounded(),
            safety(),
            pytest.raises(StreamLost, match="position 2 is stored, and the broker has nothing"),
        ):
            await receive_for_ever(consumer, 1)


async def test_an_offset_that_a_new_leader_lacks_is_a_passing_error(kafka: MockKafka) -> None:
    async with three_stored(kafka) as (topic, _, consumer):
        kafka.answer_partition(topic, 0, mock.FETCH, mock.OFFSET_OUT_OF_RANGE)
        with pytest.raises(BrokerUnavailable, match="at offset 3"):
            await consumer.receive(10, WITHIN)


async def test_an_unknown_topic_is_one_clear_line_at_once(kafka: MockKafka) -> None:
    there, missing = kafka.topic(), "never-created"
    with bounded(), pytest.raises(BrokerUnavailable) as told:
        async with consumer_of(kafka, Inbox(), there, missing):
            pass
    assert str(told.value).endswith(
        "there is no Kafka topic 'never-created': create it, or correct kafka_topics."
    )


async def test_a_topic_that_may_not_be_read_is_one_clear_line(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(1), Inbox()
    async with consumer_of(kafka, inbox, topic) as consumer:
        kafka.answer_partition(topic, 0, mock.FETCH, mock.NOT_ALLOWED)
        with pytest.raises(BrokerUnavailable, match=r"may not be read.*grant the user READ"):
            await receive_for_ever(consumer, 1)
    kafka.missing(topic, mock.NOT_ALLOWED)
    with pytest.raises(BrokerUnavailable, match="may not be read: grant the user READ and DESCR"):
        async with consumer_of(kafka, inbox, topic):
            pass


async def test_a_group_that_may_not_be_joined_is_one_clear_line(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    not_allowed_in_the_group = 30
    kafka.answer(mock.JOIN, not_allowed_in_the_group)
    async with consumer_of(kafka, Inbox(), topic) as consumer:
        with pytest.raises(BrokerUnavailable, match=r"the group 'group-.*' may not be joined"):
            await consumer.receive(10, WITHIN)
