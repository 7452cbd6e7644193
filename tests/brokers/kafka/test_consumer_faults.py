"""Consuming Kafka topics while groups rebalance and brokers fail: each message is stored once."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiokafka.codec
import pytest
from anyio import CancelScope, create_task_group, sleep
from confluent_kafka import Producer

from inboxd.errors import BrokerUnavailable
from tests.support import eventually
from tests.support import kafka as mock
from tests.support.kafka import MockKafka
from tests.support.kafka_published import outgoing, published, publisher_to
from tests.support.kafka_stored import WITHIN, Inbox, consumer_of, receive_for_ever, store_all
from tests.support.verdicts import safety
from tests.support.waiting import bounded, patient

pytestmark = pytest.mark.anyio


class Readers:
    """Workers that store what they receive; each opens another consumer when its own fails."""

    def __init__(self, kafka: MockKafka, inbox: Inbox, topic: str) -> None:
        self.stored: dict[str, set[str]] = defaultdict(set)
        """By reader: the streams of which it has stored since `shared_by` cleared this."""
        self.lost = 0
        self._kafka, self._inbox, self._topic = kafka, inbox, topic

    async def run(self, name: str, scope: CancelScope) -> None:
        with scope:
            while True:
                try:
                    await self._read(name)
                except BrokerUnavailable:
                    self.lost += 1

    async def _read(self, name: str) -> None:
        async with consumer_of(
            self._kafka, self._inbox, self._topic, kafka_group=self._topic, connect_timeout="200ms"
        ) as consumer:
            while True:
                # Small pages, so that more is held when a partition is taken away.
                page = await consumer.receive(5, 0.2)
                self._inbox.store(page)
                self.stored[name] |= {message.stream for message in page}
                await consumer.acknowledge(page)


@asynccontextmanager
async def load(kafka: MockKafka, topic: str, published_so_far: list[str]) -> AsyncIterator[None]:
    """Publish messages all the time meanwhile."""

    async def run(scope: CancelScope) -> None:
        async with publisher_to(kafka) as publisher:
            while not scope.cancel_called:
                number = len(published_so_far)
                messages = [
                    outgoing(topic, f"{number + each}", key=f"key-{each}") for each in range(40)
                ]
                assert not await published(publisher, messages)
                published_so_far.extend(message.body.decode() for message in messages)
                await sleep(0.01)  # the pace of the load

    scope = CancelScope()
    async with create_task_group() as group:
        group.start_soon(run, scope)
        yield
        scope.cancel()


async def test_readers_that_come_and_go_under_load_store_each_message_once(
    kafka: MockKafka,
) -> None:
    topic, inbox = kafka.topic(6), Inbox()
    readers, sent = Readers(kafka, inbox, topic), list[str]()
    scopes = {name: CancelScope() for name in "abc"}

    async def all_store(names: str) -> bool:
        """Each reader stores some partitions; no partition is missing, and none has two readers."""
        streams = [readers.stored[name] for name in names]
        return all(streams) and sum(map(len, streams)) == len(set().union(*streams)) == 6

    async def shared_by(names: str) -> bool:
        readers.stored.clear()
        await eventually(partial(some_stored, 300 + len(inbox.messages)))
        return await all_store(names)

    async def some_stored(count: int) -> bool:
        return len(inbox.messages) >= count

    with bounded(60):
        async with create_task_group() as group:
            async with load(kafka, topic, sent):
                for names in ("a", "ab", "abc"):
                    group.start_soon(readers.run, names[-1], scopes[names[-1]])
                    await eventually(partial(shared_by, names))
                scopes["a"].cancel()
                await eventually(partial(shared_by, "bc"))
                scopes["b"].cancel()
                await eventually(partial(shared_by, "c"))
            await eventually(partial(some_stored, len(sent)))
            scopes["c"].cancel()
    # `Inbox.store` has checked that each message followed the one before.
    with safety():
        assert len(inbox.messages) == len(sent)
        by_key: dict[str | None, list[int]] = defaultdict(list)
        for message in inbox.messages:
            by_key[message.key].append(int(message.body))
        assert all(each == sorted(each) for each in by_key.values())


async def test_unstored_messages_come_again_after_a_rebalance(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    async with publisher_to(kafka) as publisher:
        messages = [outgoing(topic, str(number), key=f"{number}") for number in range(20)]
        assert not await published(publisher, messages)
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as one:
        unstored = 0
        while unstored < 20:
            unstored += len(await one.receive(100, WITHIN))
        async with consumer_of(kafka, inbox, topic, kafka_group=topic) as other:

            async def all_stored() -> bool:
                for each in (one, other):
                    inbox.store(await each.receive(100, 0.05))
                return len(inbox.messages) == 20

            await eventually(all_stored)


async def test_brokers_that_go_and_come_lose_nothing(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(6), Inbox()
    readers, sent = Readers(kafka, inbox, topic), list[str]()
    kafka.coordinate(topic, 1)

    async def goes_on(count: int) -> bool:
        return len(inbox.messages) > count

    async def is_missed(count: int) -> bool:
        return readers.lost > count

    async with publisher_to(kafka) as publisher:
        with bounded(60):
            async with create_task_group() as group:
                scope = CancelScope()
                group.start_soon(readers.run, "a", scope)
                for broker in (1, -1):
                    messages = [outgoing(topic, str(n), key=str(n % 30)) for n in range(300)]
                    assert not await published(publisher, messages)
                    sent += [message.body.decode() for message in messages]
                    await eventually(partial(goes_on, len(inbox.messages)))
                    kafka.down(broker)
                    await eventually(partial(is_missed, readers.lost))
                    kafka.up(broker)
                await eventually(partial(goes_on, len(sent) - 1))
                scope.cancel()
    with safety():
        assert len(inbox.messages) == len(sent)


async def test_brokers_that_hang_are_noticed_and_do_not_delay_close(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [outgoing(topic, "0")])
    async with consumer_of(kafka, inbox, topic, connect_timeout="200ms") as consumer:
        await store_all(consumer, inbox, 1)
        with kafka.hanging():
            with bounded(), pytest.raises(BrokerUnavailable, match=r"no answer for .* for 0\.6 s"):
                await receive_for_ever(consumer, 0.1)
            with bounded():
                await consumer.close()


async def test_one_broker_that_is_lost_is_noticed_beside_others(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    kafka.lead(topic, 0, 1)
    kafka.lead(topic, 1, 2)
    kafka.coordinate(topic, 2)
    messages = [outgoing(topic, "x", key=f"{number}") for number in range(20)]
    async with (
        publisher_to(kafka) as publisher,
        consumer_of(kafka, inbox, topic, kafka_group=topic, connect_timeout="200ms") as consumer,
    ):
        assert not await published(publisher, messages)
        await store_all(consumer, inbox, 20)
        there = {message.key for message in inbox.messages if message.stream == f"{topic}/1"}
        kafka.down(1)

        async def come() -> None:
            """Messages of the other broker come, each time before its silence is too long."""
            while True:
                assert not await published(
                    publisher, [message for message in messages if message.key in there]
                )
                await consumer.receive(100, 0.1)
                await consumer.receive(100, 0.0)  # fills a page, as the engine does

        with (
            bounded(),
            pytest.raises(BrokerUnavailable, match=f"no answer for partition {topic}/0 "),
        ):
            await come()


async def test_a_consumer_may_be_closed_during_a_rebalance(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(2), Inbox()
    async with consumer_of(kafka, inbox, topic, kafka_group=topic) as first:
        assert await first.receive(10, 1) == []
        async with consumer_of(kafka, inbox, topic, kafka_group=topic) as second:
            assert await second.receive(10, 0) == []
            with bounded():
                await second.close()
            await second.close()


async def test_a_topic_that_is_gone_is_an_error(kafka: MockKafka) -> None:
    topic, other, inbox = kafka.topic(2), kafka.topic(1), Inbox()
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, [outgoing(topic, "0")])
    async with consumer_of(kafka, inbox, topic, other) as consumer:
        await store_all(consumer, inbox, 1)
        kafka.missing(other)
        kafka.answer_partition(topic, 0, mock.FETCH, mock.NOT_LEADER)  # so leaders are looked up
        with bounded(), pytest.raises(BrokerUnavailable, match="there is no Kafka topic"):
            await receive_for_ever(consumer, 0.1)


async def test_a_codec_that_is_not_installed_is_one_clear_line(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiokafka.codec, "cramjam", None)
    topic, inbox = kafka.topic(1), Inbox()
    producer = Producer(
        {
            "bootstrap.servers": ",".join(kafka.servers),
            "compression.type": "snappy",
            "log_level": 0,
        }
    )
    producer.produce(topic, b"zipped" * 100)
    assert producer.flush(patient()) == 0
    del producer
    async with consumer_of(kafka, inbox, topic) as consumer:
        with pytest.raises(BrokerUnavailable) as told:
            await consumer.receive(10, WITHIN)
    assert str(told.value).endswith(
        "messages cannot be read (UnsupportedCodecError: Libraries for snappy compression codec "
        "not found): pip install cramjam."
    )


async def test_messages_in_memory_are_bounded_without_a_receiver(kafka: MockKafka) -> None:
    topic, inbox = kafka.topic(4), Inbox()
    page = [outgoing(topic, "x" * 1000, key=f"key-{number}") for number in range(100)]
    async with (
        publisher_to(kafka) as publisher,
        consumer_of(kafka, inbox, topic, prefetch=100) as consumer,
    ):
        assert not await published(publisher, page)
        inbox.store(await consumer.receive(1, WITHIN))
        for _ in range(20):
            assert not await published(publisher, page)
            fetched = consumer._consumer._fetcher._records.values()
            held = sum(each._partition_records._records.size_in_bytes() for each in fetched)
            assert 0 < held < 4 * 64 * 1024
        await store_all(consumer, inbox, 2100)
