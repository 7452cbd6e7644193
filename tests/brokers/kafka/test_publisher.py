"""Publishing to Kafka topics: confirmed, in order per key, and refused one by one."""

from collections import defaultdict
from typing import cast

import pytest
from aiokafka import AIOKafkaProducer

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.kafka import open_publisher
from inboxd.errors import BrokerUnavailable, MessageRefused
from tests.support import kafka as mock
from tests.support.kafka import MockKafka
from tests.support.kafka_published import (
    bodies,
    check_sequences,
    outgoing,
    published,
    publisher_to,
)
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_a_published_message_has_its_key_and_headers(kafka: MockKafka) -> None:
    topic = kafka.topic()
    message = outgoing(topic, "body", key="Bétèlgeuse")
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [message])
        assert not await published(publisher, [])
    (record,) = await kafka.records(topic)
    assert (record.key, record.value) == ("Bétèlgeuse".encode(), b"body")
    assert record.headers == {
        "ce_specversion": b"1.0",
        "ce_id": message.id.encode(),
        "ce_source": b"/tests",
        "ce_type": b"test.done",
        "traceparent": b"00-1-2-01",
        "content-type": b"application/json",
    }
    event = cloud_events.read(
        {name: (value or b"").decode() for name, value in record.headers.items()}, ["ce_"]
    )
    assert event is not None
    assert (event.id, event.datacontenttype) == (message.id, "application/json")


async def test_keys_keep_their_order_over_partitions_and_pages(kafka: MockKafka) -> None:
    topics = [kafka.topic(), kafka.topic(7)]
    async with publisher_to(kafka) as publisher:
        for page in range(5):
            messages = [
                outgoing(topics[number % 2], f"{page * 500 + number}", key=f"k{number % 40}")
                for number in range(500)
            ]
            assert not await published(publisher, messages)
    for which, topic in enumerate(topics):
        records = await kafka.records(topic)
        with safety():
            assert len(records) == 1250
            check_sequences(records)
            by_key: dict[bytes | None, list[int]] = defaultdict(list)
            for record in records:
                by_key[record.key].append(int(record.value or b""))
            assert len(by_key) == 20
            assert all(each == sorted(each) for each in by_key.values())
        assert {number % 2 for each in by_key.values() for number in each} == {which}
        assert len({record.partition for record in records}) > 2


async def test_a_key_has_the_partition_that_other_clients_give_it(kafka: MockKafka) -> None:
    topic = kafka.topic(11)
    keys = [f"key-{number}" for number in range(50)]
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [outgoing(topic, "", key) for key in keys])
    async with AIOKafkaProducer(bootstrap_servers=[*kafka.servers]) as other:
        for key in keys:
            await other.send_and_wait(topic, b"", key=key.encode())
    partitions: dict[bytes | None, set[int]] = defaultdict(set)
    for record in await kafka.records(topic):
        partitions[record.key].add(record.partition)
    with safety():
        assert all(len(each) == 1 for each in partitions.values())


async def test_messages_without_a_key_have_none_and_take_turns_by_pages(kafka: MockKafka) -> None:
    topic = kafka.topic(3)
    async with publisher_to(kafka) as publisher:
        for _ in range(3):
            assert not await published(publisher, [outgoing(topic, "x", None)] * 10)
    records = await kafka.records(topic)
    assert {record.key for record in records} == {None}
    assert [record.partition for record in records] == [0] * 10 + [1] * 10 + [2] * 10


async def test_a_missing_topic_delays_no_other(kafka: MockKafka) -> None:
    good, missing = kafka.topic(), kafka.topic()
    kafka.missing(missing)
    messages = [outgoing(missing if place == 5 else good, f"{place}") for place in range(10)]
    async with publisher_to(kafka, connect_timeout="300ms") as publisher:
        for _ in range(2):
            told: dict[int, Exception | None] = {}
            await publisher.publish(messages, told.__setitem__)
            with safety():
                assert len(told) == 10
                assert [*told][-1] == 5, "the others are confirmed first"
                assert [place for place, error in told.items() if error is not None] == [5]
            refusal = cast("MessageRefused", told[5])
            assert (refusal.for_good, refusal.unroutable) == (False, True)
            assert str(told[5]) == (
                f"there is no Kafka topic '{missing}': create it, or correct `to` of the relay."
            )
        with safety():
            assert len(await kafka.records(good)) == 18
        kafka.missing(missing, 0)
        assert not await published(publisher, messages)


async def test_a_topic_that_is_deleted_meanwhile_is_missing(kafka: MockKafka) -> None:
    good, deleted = kafka.topic(), kafka.topic(1)
    async with publisher_to(kafka, connect_timeout="300ms") as publisher:
        assert not await published(publisher, [outgoing(good, "1"), outgoing(deleted, "1")])
        kafka.missing(deleted)
        kafka.answer_partition(deleted, 0, mock.PRODUCE, mock.UNKNOWN_TOPIC)
        refused = await published(publisher, [outgoing(good, "2"), outgoing(deleted, "2")])
        assert refused.keys() == {1}
        assert not refused[1].for_good
    with safety():
        assert bodies(await kafka.records(good)) == ["1", "2"]


async def test_a_topic_that_is_just_being_created_is_waited_for(kafka: MockKafka) -> None:
    topic = kafka.topic()
    kafka.missing(topic, mock.LEADER_NOT_AVAILABLE)
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(topic, "1")])
        assert "is not available: LeaderNotAvailableError" in str(refused[0])
        assert not refused[0].for_good


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250])
async def test_a_name_that_no_topic_has_is_refused_for_good(kafka: MockKafka, name: str) -> None:
    good = kafka.topic()
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(good, "1"), outgoing(name, "2")])
    assert refused.keys() == {1}
    assert refused[1].for_good
    assert "is not a valid name of a Kafka topic" in str(refused[1])


async def test_a_control_character_in_a_header_is_refused_for_good(kafka: MockKafka) -> None:
    topic = kafka.topic()
    bad = outgoing(topic, "bad")
    bad = OutgoingMessage(to=topic, key="k", id=bad.id, body=b"bad", headers={"a": "b\nc"})
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(topic, "1"), bad, outgoing(topic, "2")])
    assert refused.keys() == {1}
    assert refused[1].for_good
    with safety():
        assert bodies(await kafka.records(topic)) == ["1", "2"]


async def test_a_topic_that_may_not_be_written_is_refused_for_now(kafka: MockKafka) -> None:
    good, unseen, unwritten = kafka.topic(), kafka.topic(), kafka.topic(1)
    kafka.missing(unseen, mock.NOT_ALLOWED)
    kafka.answer_partition(unwritten, 0, mock.PRODUCE, mock.NOT_ALLOWED)
    messages = [outgoing(topic, topic) for topic in (good, unseen, unwritten, good, unwritten)]
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, messages)
        assert refused.keys() == {1, 2, 4}
        for each in refused.values():
            assert not each.for_good
            assert "may not be written to: grant the user WRITE and DESCRIBE" in str(each)
        assert not await published(publisher, [outgoing(unwritten, "allowed")])
    records = await kafka.records(unwritten)
    with safety():
        assert bodies(records) == ["allowed"]
        check_sequences(records)  # the refused batch spent none


async def test_halving_finds_the_message_to_blame_for_a_refused_batch(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    # Refused: the batch of all four, that of the first two, and the first alone.
    kafka.answer_partition(topic, 0, mock.PRODUCE, *[mock.TOO_LARGE] * 3)
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(topic, body) for body in "abcd"])
        assert refused.keys() == {0}
        assert refused[0].for_good
        assert str(refused[0]) == (
            f"the Kafka topic '{topic}' refuses this message of 1 bytes: "
            "MESSAGE_SIZE_TOO_LARGE (10). Raise max.message.bytes of the Kafka topic, or emit "
            "smaller events."
        )
        # Later batches are smaller.
        big = "x" * 200
        assert not await published(publisher, [outgoing(topic, f"{n}{big}") for n in range(4)])
    records = await kafka.records(topic)
    with safety():
        assert [body[0] for body in bodies(records)] == [*"bcd0123"]
        check_sequences(records)
    assert len({record.sequence for record in records}) == 2 + 4


async def test_an_invalid_record_is_refused_alone(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    kafka.answer_partition(topic, 0, mock.PRODUCE, mock.INVALID_RECORD, 0, mock.INVALID_RECORD)
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(topic, body) for body in "ab"])
    assert refused.keys() == {1}
    assert refused[1].for_good
    assert "a compacted topic requires keys" in str(refused[1])


async def test_a_message_that_no_request_can_hold_is_refused(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    huge = outgoing(topic, b"x" * (64 * 1024 * 1024 + 1))
    async with publisher_to(kafka) as publisher:
        refused = await published(publisher, [outgoing(topic, "1"), huge])
    assert refused.keys() == {1}
    assert refused[1].for_good


async def test_large_pages_are_several_batches_in_order(kafka: MockKafka) -> None:
    topic = kafka.topic(2)
    body = "x" * 100_000
    async with publisher_to(kafka) as publisher:
        messages = [outgoing(topic, f"{number:03}{body}", key="one") for number in range(40)]
        assert not await published(publisher, messages)
    records = await kafka.records(topic)
    with safety():
        assert [each[:3] for each in bodies(records)] == [f"{number:03}" for number in range(40)]
        check_sequences(records)
    assert len({record.sequence for record in records}) == 8


async def test_a_passing_error_is_tried_again(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    async with publisher_to(kafka) as publisher:
        for errors in ([mock.TIMED_OUT], [mock.NOT_LEADER, mock.TIMED_OUT], [mock.CUT]):
            kafka.answer(mock.PRODUCE, *errors)
            assert not await published(publisher, [outgoing(topic, "x")] * 3)
    records = await kafka.records(topic)
    with safety():
        assert len(records) == 9
        check_sequences(records)


async def test_a_new_leader_of_a_partition_is_found(kafka: MockKafka) -> None:
    topic = kafka.topic(1)
    async with publisher_to(kafka) as publisher:
        for leader in (1, 2, 3, 1):
            kafka.lead(topic, 0, leader)
            assert not await published(publisher, [outgoing(topic, str(leader))])
    with safety():
        assert bodies(await kafka.records(topic)) == ["1", "2", "3", "1"]


async def test_a_lasting_error_is_a_lost_broker(kafka: MockKafka) -> None:
    topics = [kafka.topic(1), kafka.topic(1)]
    told: list[int] = []
    async with publisher_to(kafka, connect_timeout="300ms") as publisher:
        assert not await published(publisher, [outgoing(topic, "0") for topic in topics])
        kafka.lead(topics[0], 0, -1)
        with pytest.raises(BrokerUnavailable, match=f"of the Kafka topic '{topics[0]}' has no lea"):
            await publisher.publish(
                [outgoing(topic, "1") for topic in topics], lambda place, _: told.append(place)
            )
    with safety():
        assert told == [1]
        assert bodies(await kafka.records(topics[1])) == ["0", "1"]


async def test_a_producer_that_the_broker_has_forgotten_is_given_up(
    kafka: MockKafka,
) -> None:
    topic = kafka.topic(1)
    async with publisher_to(kafka) as publisher:
        kafka.answer(mock.PRODUCE, mock.OUT_OF_ORDER)
        with pytest.raises(BrokerUnavailable, match="takes nothing more from this producer"):
            await publisher.publish([outgoing(topic, "1")], lambda *_: None)
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [outgoing(topic, "1")])


@pytest.mark.parametrize("unclear", [mock.TIMED_OUT, mock.CUT])
async def test_a_refused_batch_that_may_be_written_ends_the_producer(
    kafka: MockKafka, unclear: int
) -> None:
    """Its sequence may be used up: another batch with it would be dropped."""
    topic = kafka.topic(1)
    async with publisher_to(kafka) as publisher:
        kafka.answer(mock.PRODUCE, unclear, mock.NOT_ALLOWED)
        with pytest.raises(BrokerUnavailable, match="takes nothing more from this producer"):
            await published(publisher, [outgoing(topic, "1")])


async def test_no_producers_id_is_one_clear_line(kafka: MockKafka) -> None:
    not_allowed_on_the_cluster = 31
    kafka.answer(mock.PRODUCER_ID, not_allowed_on_the_cluster)
    with pytest.raises(BrokerUnavailable, match="the user needs IDEMPOTENT_WRITE on the cluster"):
        await open_publisher("main", kafka.broker())
