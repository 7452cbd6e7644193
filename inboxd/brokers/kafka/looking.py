"""Looks up the partitions of Kafka topics without joining their group or committing offsets.

Known limit: waiting messages are counted by offsets; transactions and compaction leave gaps.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from anyio import move_on_after

from inboxd.brokers.contract import IncomingMessage, SeenStream, StreamPosition
from inboxd.brokers.kafka.access import LOST, Access, access_to, why_not_reached
from inboxd.brokers.kafka.beginnings import beginnings
from inboxd.brokers.kafka.member import LEAVE_SECONDS
from inboxd.brokers.kafka.messages import messages, stream
from inboxd.brokers.kafka.topics import KafkaTopics, kafka_topics
from inboxd.errors import StreamLost
from inboxd.settings import Broker, MessageSource

_WAIT_MS = 250


async def look_at_streams(
    name: str,
    broker: Broker,
    source: str,
    settings: MessageSource,
    stored: Mapping[str, StreamPosition],
    most: int,
) -> Sequence[SeenStream]:
    """Look up a source's partitions (`kinds.look_of`). Raises BrokerUnavailable, SettingsError."""
    access = await access_to(name, broker)
    topics = await kafka_topics(access, settings.kafka_topics, None)
    lost: dict[TopicPartition, str] = {}
    wanted: dict[TopicPartition, range] = {}
    for partition, offsets in topics.offsets.items():
        at = stored.get(stream(partition))
        if at is None:
            continue
        try:
            beginnings(source, {partition: at}, topics)
        except StreamLost as error:
            lost[partition] = str(error)
            continue
        if at.identity:  # else an operator set it, and no message is stored
            first = max(offsets.oldest, at.position - most + 1)
            wanted[partition] = range(first, at.position + 1)
    latest = await _latest(access, settings, topics, wanted)
    return [
        SeenStream(
            stream=stream(partition),
            oldest=offsets.oldest,
            end=offsets.end - 1,
            waiting=max(0, offsets.end - _next(stored.get(stream(partition)), offsets.oldest)),
            lost=lost.get(partition, ""),
            latest=latest.get(partition, ()),
        )
        for partition, offsets in topics.offsets.items()
    ]


def _next(stored: StreamPosition | None, oldest: int) -> int:
    return oldest if stored is None else max(oldest, stored.position + 1)


async def _latest(
    access: Access,
    settings: MessageSource,
    topics: KafkaTopics,
    wanted: Mapping[TopicPartition, range],
) -> dict[TopicPartition, list[IncomingMessage]]:
    asked = {partition: offsets for partition, offsets in wanted.items() if offsets}
    if not asked:
        return {}
    consumer = AIOKafkaConsumer(
        bootstrap_servers=[*access.servers],
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        **access.arguments,
    )
    try:
        await consumer.start()
        return {
            partition: await _read(consumer, partition, offsets, access, settings, topics)
            for partition, offsets in asked.items()
        }
    except LOST as error:
        raise access.unavailable(why_not_reached(access, error)) from error
    finally:
        with move_on_after(LEAVE_SECONDS, shield=True), suppress(*LOST):
            await consumer.stop()


async def _read(
    consumer: AIOKafkaConsumer,
    partition: TopicPartition,
    offsets: range,
    access: Access,
    settings: MessageSource,
    topics: KafkaTopics,
) -> list[IncomingMessage]:
    """The messages of one partition; fewer if its broker does not deliver them in time."""
    identity, found = topics.ids[partition.topic], list[IncomingMessage]()
    consumer.assign([partition])
    consumer.seek(partition, offsets.start)
    with move_on_after(access.patience):
        while await consumer.position(partition) < offsets.stop:
            came = await consumer.getmany(partition, timeout_ms=_WAIT_MS, max_records=len(offsets))
            records = [each for each in came.get(partition, ()) if each.offset < offsets.stop]
            found += messages(partition, records, identity, settings.max_body)
    return found
