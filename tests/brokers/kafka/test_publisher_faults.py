"""Publishing to Kafka topics while brokers are away, slow, or hang: at least once, in order."""

from collections import defaultdict
from functools import partial
from time import monotonic
from typing import Any

import pytest
from aiokafka.protocol.metadata import MetadataRequest
from anyio import create_task_group, move_on_after

from inboxd.brokers.kafka import open_publisher
from inboxd.brokers.kafka.cluster import KafkaCluster
from inboxd.brokers.kafka.publisher import KafkaPublisher
from inboxd.errors import BrokerUnavailable
from tests.support import eventually
from tests.support import kafka as mock
from tests.support.kafka import MockKafka
from tests.support.kafka_published import (
    bodies,
    outgoing,
    published,
    publisher_to,
)
from tests.support.verdicts import safety
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


async def test_a_cut_between_publish_and_confirm_repeats_the_same_batch(kafka: MockKafka) -> None:
    """A broker recognises the repetition; the mock writes it twice."""
    topic = kafka.topic(1)
    kafka.lead(topic, 0, 1)

    async def cut_when_written() -> None:
        async def written() -> bool:
            return len(await kafka.records(topic)) == 1 + 3

        await eventually(written)
        kafka.down(1)
        kafka.up(1)

    async with publisher_to(kafka) as publisher, create_task_group() as group:
        assert not await published(publisher, [outgoing(topic, "0")])
        kafka.delay(1, mock.PRODUCE, 3_600_000)
        group.start_soon(cut_when_written)
        with bounded():
            assert not await published(publisher, [outgoing(topic, body) for body in "123"])
    records = await kafka.records(topic)
    with safety():
        assert bodies(records) == [*"0123123"]
        assert len({record.producer for record in records}) == 1
        assert [record.sequence for record in records] == [0, *[1] * 6]


async def test_a_slow_confirmation_is_waited_for(kafka: MockKafka) -> None:
    topic = kafka.topic()
    async with publisher_to(kafka, connect_timeout="100ms") as publisher:
        assert not await published(publisher, [outgoing(topic, "0")])
        kafka.slow(500)
        began = monotonic()
        assert not await published(publisher, [outgoing(topic, "1")])
        assert monotonic() - began >= 0.5
        kafka.slow(0)
    with safety():
        assert bodies(await kafka.records(topic)) == ["0", "1"]


async def test_confirmations_are_told_as_they_come(kafka: MockKafka) -> None:
    """One broker hangs; messages that the others confirmed are reported."""
    topic = kafka.topic(2)
    kafka.lead(topic, 0, 1)
    kafka.lead(topic, 1, 2)
    messages = [outgoing(topic, str(number), key=str(number)) for number in range(40)]
    told: dict[int, Exception | None] = {}
    async with publisher_to(kafka) as publisher:
        assert not await published(publisher, messages)
        kafka.delay(1, mock.PRODUCE, 60_000)
        with move_on_after(0.5):
            await publisher.publish(messages, told.__setitem__)
    records = await kafka.records(topic)
    confirmed = {int(body) for body in bodies([each for each in records if each.partition == 1])}
    with safety():
        assert told == dict.fromkeys(confirmed)
    assert 0 < len(told) < 40


# A part that the kernel still holds, and a part that the kernel does not take yet.
@pytest.mark.parametrize("size", [2_500_000, 30_000_000])
async def test_unsent_data_to_a_broker_that_hangs_is_never_sent(
    kafka: MockKafka, size: int
) -> None:
    topic = kafka.topic(1)
    large = outgoing(topic, b"x" * size)
    publisher = await open_publisher("main", kafka.broker(connect_timeout="1h"))
    assert not await published(publisher, [outgoing(topic, "before")])
    with kafka.hanging():
        with move_on_after(0.3) as scope:
            await publisher.publish([large, outgoing(topic, "behind")], lambda *_: None)
        assert scope.cancelled_caught
        with bounded():
            await publisher.close()
    async with publisher_to(kafka) as another:
        assert not await published(another, [outgoing(topic, "after")])
    with safety():
        assert [body[:10] for body in bodies(await kafka.records(topic))] == ["before", "after"]


async def test_close_is_idempotent_and_comes_after_errors(kafka: MockKafka) -> None:
    topic = kafka.topic()
    publisher = await open_publisher("main", kafka.broker(connect_timeout="100ms"))
    assert not await published(publisher, [outgoing(topic, "0")])
    kafka.down()
    with pytest.raises(BrokerUnavailable):
        await published(publisher, [outgoing(topic, "1")])
    await publisher.close()
    await publisher.close()


async def test_a_broker_that_is_away_is_one_clear_line(kafka: MockKafka) -> None:
    kafka.down()
    with bounded(), pytest.raises(BrokerUnavailable) as told:
        await open_publisher("main", kafka.broker())
    servers = ", ".join(kafka.servers)
    assert str(told.value) == (
        f"broker 'main' (kafka at {servers}): it cannot be reached (Connection refused): start it, "
        "or correct servers, tls or user of [brokers.main]."
    )


async def test_a_broker_that_hangs_is_one_clear_line(kafka: MockKafka) -> None:
    with (
        kafka.hanging(),
        bounded(),
        pytest.raises(BrokerUnavailable, match=r"no answer within 0\.2 s: start it, or correct"),
    ):
        await open_publisher("main", kafka.broker(connect_timeout="200ms"))


async def test_a_topic_that_no_broker_knows_at_first_is_asked_for_in_turn(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, asked = kafka.topic(1), list[int]()
    kafka.missing(topic)
    look_up = KafkaCluster.look_up

    async def looked_up(cluster: KafkaCluster, topics: set[str], **how: bool) -> Any:
        found = await look_up(cluster, topics, **how)
        asked.append(cluster._answered)
        if len(asked) == 5:
            kafka.missing(topic, 0)
        return found

    monkeypatch.setattr(KafkaCluster, "look_up", looked_up)
    async with publisher_to(kafka, connect_timeout="1h") as publisher:
        with bounded():
            assert not await published(publisher, [outgoing(topic, "1")])
    assert set(asked[1:4]) == set(kafka.brokers)
    with safety():
        assert bodies(await kafka.records(topic)) == ["1"]


@pytest.mark.parametrize("known", [False, True])
async def test_a_broker_that_starts_and_knows_no_topic_is_not_believed(
    kafka: MockKafka, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Whether its topic is looked up for the first time, or again after a failure."""
    topic, starting = kafka.topic(1), list[int]()
    send = KafkaCluster.send

    async def sent(cluster: KafkaCluster, broker: int, request: Any) -> Any:
        answer = await send(cluster, broker, request)
        if isinstance(request, MetadataRequest):
            if not starting:
                starting.append(broker)
            if broker in starting:
                answer.topics = [(mock.UNKNOWN_TOPIC, topic, [])]
        return answer

    async with publisher_to(kafka, connect_timeout="1h") as publisher:
        if known:
            assert not await published(publisher, [outgoing(topic, "0")])
            kafka.answer_partition(topic, 0, mock.PRODUCE, mock.UNKNOWN_TOPIC)
        monkeypatch.setattr(KafkaCluster, "send", sent)
        with bounded():
            assert not await published(publisher, [outgoing(topic, "1")])
    assert starting
    with safety():
        assert bodies(await kafka.records(topic)) == (["0", "1"] if known else ["1"])


class Relay:
    """Sends waves as the real one does: a key's next message once the one before is confirmed."""

    def __init__(self, kafka: MockKafka, topic: str) -> None:
        self.confirmed = {f"key-{number}": 0 for number in range(50)}
        self.lost = 0
        self.stopped = False
        self._kafka, self._topic = kafka, topic

    async def run(self) -> None:
        while not self.stopped:
            try:
                async with publisher_to(self._kafka, connect_timeout="200ms") as publisher:
                    while not self.stopped:
                        await self._wave(publisher)
            except BrokerUnavailable:
                self.lost += 1

    async def _wave(self, publisher: KafkaPublisher) -> None:
        wave = [*self.confirmed.items()]

        def tell(place: int, refusal: Exception | None) -> None:
            assert refusal is None
            self.confirmed[wave[place][0]] += 1

        await publisher.publish(
            [outgoing(self._topic, str(count), key) for key, count in wave], tell
        )


async def test_brokers_that_go_and_come_lose_nothing_and_keep_the_order(
    kafka: MockKafka,
) -> None:
    topic = kafka.topic(6)
    relay = Relay(kafka, topic)
    kafka.slow(5)  # the mock keeps 5 MB of a partition

    async def work_goes_on(since: int) -> bool:
        return min(relay.confirmed.values()) > since

    async def broker_is_missed(since: int) -> bool:
        return relay.lost > since

    with bounded(60):
        async with create_task_group() as group:
            group.start_soon(relay.run)
            for broker in (1, 2, 3, -1, 2):
                await eventually(partial(work_goes_on, max(relay.confirmed.values()) + 1))
                kafka.down(broker)
                await eventually(partial(broker_is_missed, relay.lost))
                kafka.up(broker)
            await eventually(partial(work_goes_on, max(relay.confirmed.values()) + 1))
            relay.stopped = True
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    with safety():
        for record in await kafka.records(topic):
            by_key[record.key].append(int(record.value or b""))
        for key, count in relay.confirmed.items():
            came = by_key[key.encode()]
            assert [*dict.fromkeys(came)] == [*range(count)]
            # Only unconfirmed messages are repeated: none is published after a newer message.
            assert came == sorted(came)
