"""Publishes to Kafka topics: each page as a few record batches, one per partition at a time.

Works like Kafka's idempotent producer (`acks=all`): an attempt whose answer was lost is repeated
under its sequence, and the broker recognises it. aiokafka's own producer is not used: it repeats
without end, sends queued data when it is closed, and after a refused batch continues with the next
sequence, which the broker takes for a loss.
Promises: only a confirmation uses up a sequence; a refusal by one Kafka topic delays no other; a
topic counts as missing only if no broker has known it for the time limit of a connection, since a
starting broker knows none; nothing is sent after a cancellation or any other error. Known limits: a
reopened publisher has a new id, so unconfirmed batches may exist twice; batches are not compressed;
a broker that may create topics does so.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from aiokafka.errors import (
    InvalidTopicError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.structs import TopicPartition
from anyio import create_task_group, sleep

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.kafka.access import LOST, access_to, why_not_reached
from inboxd.brokers.kafka.batches import KafkaBatch, batched, halves
from inboxd.brokers.kafka.cluster import KafkaCluster, open_cluster
from inboxd.brokers.kafka.page import KafkaPage
from inboxd.brokers.kafka.verdict import (
    BatchVerdict,
    is_too_large,
    is_valid,
    meaning,
    refused_message,
    refused_topic,
    verdict,
)
from inboxd.settings import Broker

_ALL_REPLICAS = -1
_REPLICATION_MS = 30_000
_NO_TRANSACTION = 2**31 - 1
_SEQUENCES = 2**31
_BACKOFF_SECONDS = 0.1
# Time for a new Kafka topic to get its leaders.
_CREATION_SECONDS = 1.0
# Seconds for which added partitions of a Kafka topic may stay unused.
_LOOK_UP_SECONDS = 60.0
# A request takes further batches until it has more bytes than this.
_REQUEST_BYTES = 8 * 1024 * 1024
# Verdicts on a batch that an earlier attempt may have written.
_OF_UNCLEAR = {
    BatchVerdict.REPEATED: BatchVerdict.CONFIRMED,
    BatchVerdict.SPLIT: BatchVerdict.FENCED,
    BatchVerdict.REFUSED: BatchVerdict.FENCED,
}
# Final reasons for a missing Kafka topic.
_FINAL = (InvalidTopicError, TopicAuthorizationFailedError)
# A broker also answers this for a topic that it does not know yet.
_UNKNOWN = UnknownTopicOrPartitionError


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why a batch was not confirmed. final: this producer cannot publish the batch."""

    why: str
    final: bool = False


class KafkaPublisher:
    def __init__(self, cluster: KafkaCluster, producer: tuple[int, int]) -> None:
        self._access = cluster.access
        self._cluster = cluster
        self._producer = producer
        self._sequences: dict[TopicPartition, int] = {}
        self._most_bytes: dict[str, int] = {}
        self._pages = 0
        self._looked_up = monotonic()

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        page = KafkaPage(messages, tell)
        try:
            topics = {message.to for message in messages}
            missing = await self._find(topics)
            unknown = {topic for topic, why in missing.items() if why is _UNKNOWN}
            await self._publish_to(page, topics - unknown, missing)
            if unknown:
                missing = await self._look_up(unknown, _FINAL, self._access.patience)
                await self._publish_to(page, unknown, missing)
        except BaseException:
            self._cluster.abort()
            raise

    async def close(self) -> None:
        await self._cluster.close()

    async def _publish_to(
        self, page: KafkaPage, topics: set[str], missing: Mapping[str, type[Exception]]
    ) -> None:
        if refused := topics & missing.keys():
            for place, message in enumerate(page.messages):
                if message.to in refused:
                    page.tell(place, refused_topic(message.to, missing[message.to]))
        leaders = {topic: self._cluster.leaders[topic] for topic in topics - refused}
        self._pages += 1
        page.lines = batched(page.messages, leaders, self._most_bytes, self._pages, page.tell)
        await self._publish(page)

    async def _find(self, topics: set[str]) -> dict[str, type[Exception]]:
        """Returns why topics are missing. Raises BrokerUnavailable."""
        missing: dict[str, type[Exception]] = {
            topic: InvalidTopicError for topic in topics if not is_valid(topic)
        }
        wanted = topics - missing.keys()
        if monotonic() - self._looked_up < _LOOK_UP_SECONDS:
            wanted -= self._cluster.leaders.keys()
        else:
            self._looked_up = monotonic()
        if wanted:
            missing |= await self._look_up(wanted, (*_FINAL, _UNKNOWN), _CREATION_SECONDS)
        return missing

    async def _look_up(
        self, topics: set[str], final: Collection[type[Exception]], within: float
    ) -> dict[str, type[Exception]]:
        """Returns why some are missing, after `within` seconds, or when all reasons are final."""
        began, again = monotonic(), False
        while True:
            try:
                missing = await self._cluster.look_up(topics, elsewhere=again)
            except LOST as error:
                if monotonic() - began > self._access.patience:
                    why = why_not_reached(self._access, error)
                    raise self._access.unavailable(why) from error
            else:
                settled = all(why in final for why in missing.values())
                if settled or monotonic() - began > within:
                    return missing
            await sleep(_BACKOFF_SECONDS)
            again = True

    async def _publish(self, page: KafkaPage) -> None:
        began: float | None = None
        while page.lines:
            trouble = await self._send_first_batches(page)
            if trouble is None:
                began = None
                continue
            began = began or monotonic()
            if trouble.final:
                raise self._access.unavailable(trouble.why)
            late = monotonic() - began > self._access.patience
            await sleep(_BACKOFF_SECONDS)
            refused = await self._look_up_again(page, (*_FINAL, _UNKNOWN) if late else _FINAL)
            if late and not refused:
                raise self._access.unavailable(trouble.why)

    async def _look_up_again(self, page: KafkaPage, final: Collection[type[Exception]]) -> bool:
        """Look up changed leaders and lost topics; return whether any batch was refused."""
        topics = {partition.topic for partition in page.lines}
        try:
            missing = await self._cluster.look_up(topics, elsewhere=True)
        except LOST:
            return False  # the next attempt will report the failure
        refused = False
        for partition, line in [*page.lines.items()]:
            why = missing.get(partition.topic)
            if why is not None and why in final and not line[0].unclear:
                page.refuse(partition, refused_topic(partition.topic, why))
                refused = True
        return refused

    async def _send_first_batches(self, page: KafkaPage) -> _Trouble | None:
        troubles: list[_Trouble] = []
        by_broker: dict[int, list[TopicPartition]] = {}
        for partition in page.lines:
            broker = self._cluster.leader(*partition)
            if broker is None:
                troubles.append(_Trouble(f"{_named(partition)} has no leader"))
            else:
                by_broker.setdefault(broker, []).append(partition)

        async def send(broker: int, partitions: list[TopicPartition]) -> None:
            troubles.extend(await self._send(page, broker, partitions))

        async with create_task_group() as group:
            for broker, partitions in by_broker.items():
                group.start_soon(send, broker, partitions)
        return max(troubles, key=lambda trouble: trouble.final, default=None)

    async def _send(
        self, page: KafkaPage, broker: int, partitions: Iterable[TopicPartition]
    ) -> list[_Trouble]:
        sent: dict[TopicPartition, KafkaBatch] = {}
        size = 0
        for partition in partitions:
            batch = sent[partition] = page.lines[partition][0]
            size += len(batch.numbered(self._producer, self._sequences.get(partition, 0)))
            if size > _REQUEST_BYTES:
                break
        try:
            answer = await self._cluster.send(broker, _request(sent))
        except LOST as error:
            for batch in sent.values():
                batch.unclear = True
            return [_Trouble(why_not_reached(self._access, error))]
        troubles = []
        for topic, answers in answer.topics:
            for number, code, *_ in answers:
                partition = TopicPartition(topic, number)
                troubles += self._handle(page, partition, sent.pop(partition), code)
        troubles += [_Trouble(f"no answer for {_named(partition)}") for partition in sent]
        return troubles

    def _handle(
        self, page: KafkaPage, partition: TopicPartition, batch: KafkaBatch, code: int
    ) -> list[_Trouble]:
        found = verdict(code)
        if batch.unclear:
            # An earlier attempt may have used its sequence: a new batch with that sequence would be
            # dropped.
            found = _OF_UNCLEAR.get(found, found)
        match found:
            case BatchVerdict.CONFIRMED:
                spent = self._sequences.get(partition, 0) + len(batch.places)
                self._sequences[partition] = spent % _SEQUENCES
                page.told(partition)
            case BatchVerdict.REFUSED:
                page.refuse(partition, refused_topic(partition.topic, for_code(code)))
            case BatchVerdict.SPLIT:
                self._split(page, partition, batch, code)
            case BatchVerdict.ELSEWHERE | BatchVerdict.AGAIN:
                batch.unclear |= found is BatchVerdict.AGAIN
                return [_Trouble(f"{_named(partition)}: the broker answered {meaning(code)}")]
            case BatchVerdict.REPEATED | BatchVerdict.FENCED:
                why = f"{_named(partition)} takes nothing more from this producer: {meaning(code)}"
                return [_Trouble(why, final=True)]
        return []

    def _split(
        self, page: KafkaPage, partition: TopicPartition, batch: KafkaBatch, code: int
    ) -> None:
        """Halve a refused batch to find the refused message; a message alone is refused."""
        if len(batch.places) == 1:
            size = len(page.messages[batch.places[0]].body)
            page.told(partition, refused_message(partition.topic, code, size))
            return
        if is_too_large(code):
            self._most_bytes[partition.topic] = len(batch.data or b"") // 2
        line = page.lines[partition]
        line.popleft()
        line.extendleft(reversed(halves(batch, page.messages)))


async def open_publisher(name: str, broker: Broker) -> KafkaPublisher:
    """Connect, and get a producer id. Raises BrokerUnavailable or SettingsError."""
    cluster = await open_cluster(await access_to(name, broker))
    try:
        return KafkaPublisher(cluster, await _producer(cluster))
    except BaseException:
        await cluster.close()
        raise


async def _producer(cluster: KafkaCluster) -> tuple[int, int]:
    """A producer id and its epoch. Raises BrokerUnavailable."""
    access, began = cluster.access, monotonic()
    while True:
        try:
            answer = await cluster.ask(InitProducerIdRequest(None, _NO_TRANSACTION))
        except LOST as error:
            raise access.unavailable(why_not_reached(access, error)) from error
        why = for_code(answer.error_code)
        if why is NoError:
            return answer.producer_id, answer.producer_epoch
        if not why.retriable or monotonic() - began > access.patience:
            raise access.unavailable(
                f"it assigns no producer id: {meaning(answer.error_code)}; the user needs "
                "IDEMPOTENT_WRITE on the cluster, or WRITE on a Kafka topic."
            )
        await sleep(_BACKOFF_SECONDS)


def _request(batches: Mapping[TopicPartition, KafkaBatch]) -> ProduceRequest:
    topics: dict[str, list[tuple[int, bytearray | None]]] = {}
    for (topic, partition), batch in batches.items():
        topics.setdefault(topic, []).append((partition, batch.data))
    return ProduceRequest(None, _ALL_REPLICAS, _REPLICATION_MS, [*topics.items()])


def _named(partition: TopicPartition) -> str:
    return f"partition {partition.partition} of the Kafka topic {partition.topic!r}"
