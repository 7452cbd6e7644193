"""Consumes Kafka topics as a member of a group; the inbox, not Kafka, decides where reading begins.

Promises: each assignment begins behind the stored positions; no message of a partition is handed
over after the group has taken the partition away; an offset that the broker does not have, or a
Kafka topic that was created anew, raises an error; reading never jumps. Acknowledged offsets are
committed for tools that show the lag; a failed commit does no harm. After a rebalance messages may
come again. Known limit: one missing Kafka topic is an error for the whole source.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import (
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnsupportedCodecError,
)
from aiokafka.structs import TopicPartition
from anyio import CancelScope

from inboxd.brokers.contract import IncomingMessage, Stored
from inboxd.brokers.kafka.access import LOST, Access, access_to, why_not_reached
from inboxd.brokers.kafka.answers import Answers
from inboxd.brokers.kafka.assignment import Assignment
from inboxd.brokers.kafka.beginnings import beginnings, created_anew, lost, opened
from inboxd.brokers.kafka.member import LEAVE_SECONDS, commit, ended, member
from inboxd.brokers.kafka.messages import messages, stream
from inboxd.brokers.kafka.topic_watch import TopicWatch
from inboxd.brokers.kafka.topics import KafkaTopics, kafka_topics
from inboxd.errors import BrokerUnavailable, StreamLost
from inboxd.settings import Broker, MessageSource

_TROUBLE = (*LOST, IllegalStateError, ConsumerStoppedError)


class KafkaConsumer:
    def __init__(
        self,
        access: Access,
        source: str,
        settings: MessageSource,
        stored: Stored,
        consumer: AIOKafkaConsumer,
    ) -> None:
        self._access = access
        self._source = source
        self._settings = settings
        self._stored = stored
        self._consumer = consumer
        self._assignment = Assignment(consumer)
        self._begun: frozenset[TopicPartition] | None = None
        self._topics = KafkaTopics(0, {}, {})
        self._answers = Answers(access, consumer, self._assignment)
        self._watch = TopicWatch(access)
        self._to_commit: dict[TopicPartition, int] = {}
        self._committing: asyncio.Task[None] | None = None

    async def join(self) -> None:
        try:
            await self._consumer.start()
        except LOST as error:
            raise self._access.unavailable(why_not_reached(self._access, error)) from error
        self._consumer.subscribe(self._settings.kafka_topics, listener=self._assignment)

    async def receive(self, most: int, within: float) -> Sequence[IncomingMessage]:
        """See `Consumer`; beginning a new assignment may take longer than `within`."""
        deadline = monotonic() + within
        while True:
            await self._begin()
            if anew := self._watch.recreated():
                raise created_anew(self._source, self._begun or (), *anew)
            try:
                if found := await self._taken(most):
                    return found
                if (left := deadline - monotonic()) <= 0:
                    self._commit()  # offsets of failed commits
                    self._answers.check(self._settings.kafka_topics)
                    return []
                await self._assignment.wait(left)
            except _TROUBLE as error:
                raise await self._explained(error) from error

    async def acknowledge(self, messages: Sequence[IncomingMessage]) -> None:
        """See `Consumer`; the offsets are committed in the background."""
        for message in messages:
            if isinstance(message.token, TopicPartition) and message.position is not None:
                self._to_commit[message.token] = message.position + 1
        self._commit()

    async def lag(self) -> int | None:
        """See `Consumer`; it counts the partitions that are assigned to this consumer."""
        if self._begun is None or self._begun is not self._assignment.partitions:
            return None
        behind = 0
        for partition in self._begun:
            end = self._consumer.highwater(partition)
            end = self._topics.offsets[partition].end if end is None else end
            behind += max(0, end - await self._consumer.position(partition))
        return behind

    async def close(self) -> None:
        """Leave the group, if the broker answers within seconds."""
        with CancelScope(shield=True):
            await self._watch.close()
            if self._committing is not None:
                await asyncio.wait([self._committing], timeout=LEAVE_SECONDS)
                self._committing.cancel()
            await ended(self._consumer)

    async def _taken(self, most: int) -> list[IncomingMessage]:
        if self._begun is None or self._begun is not self._assignment.partitions:
            return []
        # Does not wait, so no partition can be taken away during the call.
        found = await self._consumer.getmany(timeout_ms=0, max_records=most)
        made: list[IncomingMessage] = []
        for partition, records in found.items():
            identity = self._topics.ids[partition.topic]
            made += messages(partition, records, identity, self._settings.max_body)
            self._answers.came(partition)
        return made

    async def _begin(self) -> None:
        """Seek the stored positions of a new assignment, unless it changes during that."""
        assigned = self._assignment.partitions
        if assigned is None or assigned is self._begun:
            return
        names = self._settings.kafka_topics
        positions = await opened(self._stored, await kafka_topics(self._access, names, assigned))
        topics = await kafka_topics(self._access, names, assigned)
        offsets = beginnings(self._source, positions, topics)
        if assigned is not self._assignment.partitions:
            return
        for partition, offset in offsets.items():
            self._consumer.seek(partition, offset)
        self._begun, self._topics = assigned, topics
        self._watch.begin({each.topic: topics.ids[each.topic] for each in assigned})
        self._to_commit = self._still_ours(self._to_commit)
        self._answers.begin()

    def _commit(self) -> None:
        """Commit in a task of its own, so that commits do not delay receiving."""
        if self._to_commit and (self._committing is None or self._committing.done()):
            self._committing = asyncio.create_task(self._commit_all())

    async def _commit_all(self) -> None:
        while offsets := self._still_ours(self._to_commit):
            self._to_commit = {}
            try:
                await commit(self._consumer, offsets)
            except KafkaError:
                self._to_commit = offsets | self._to_commit  # committed together with later offsets
                return

    def _still_ours(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        ours = self._assignment.partitions or frozenset()
        return {partition: offset for partition, offset in offsets.items() if partition in ours}

    async def _explained(self, error: Exception) -> BrokerUnavailable | StreamLost:
        match error:
            case OffsetOutOfRangeError():
                return await self._out_of_range(*next(iter(error.args[0].items())))
            case UnsupportedCodecError():
                why = f"messages cannot be read ({error}): pip install cramjam."
            case TopicAuthorizationFailedError():
                why = f"the Kafka topic may not be read ({error}): grant the user READ."
            case GroupAuthorizationFailedError():
                group = self._settings.kafka_group
                why = f"the group {group!r} may not be joined: grant the user READ on it."
            case _:
                why = why_not_reached(self._access, error)
        return self._access.unavailable(why)

    async def _out_of_range(
        self, partition: TopicPartition, offset: int
    ) -> BrokerUnavailable | StreamLost:
        try:
            topics = await kafka_topics(self._access, [partition.topic], [partition])
        except BrokerUnavailable as error:
            return error
        offsets = topics.offsets[partition]
        if offset in offsets:
            if anew := self._watch.compared(topics.ids):
                return created_anew(self._source, [partition], *anew)
            # A new leader did not have the offset yet.
            return self._access.unavailable(
                f"no answer for {stream(partition)} at offset {offset}."
            )
        why = "what follows was deleted, or the Kafka topic created anew"
        return lost(self._source, partition, offset - 1, offsets, why)


async def open_consumer(
    name: str, broker: Broker, source: str, settings: MessageSource, stored: Stored
) -> KafkaConsumer:
    """Join the group. Raises BrokerUnavailable or SettingsError."""
    access = await access_to(name, broker)
    topics = await kafka_topics(access, settings.kafka_topics)
    consumer = member(access, settings, topics.partitions)
    joined = KafkaConsumer(access, source, settings, stored, consumer)
    try:
        await joined.join()
    except BaseException:
        await joined.close()
        raise
    return joined
