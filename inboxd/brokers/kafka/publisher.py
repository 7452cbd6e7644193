"""Publishes to Kafka topics: each page as a few record batches, one of a partition at a time.

A producer with an id of its own, and sequences, as Kafka's idempotent one (`acks=all`): an attempt
whose answer was lost is repeated, for as long as a connection gets to be there, and the broker
knows the repetition. aiokafka's own producer is not used: it repeats without an end, sends what
waits when it is closed, and goes on counting behind a batch that was refused, which the broker
takes for a loss.

Promises that a sequence is spent by a confirmation only; that what one Kafka topic does not take
holds up no other; that a Kafka topic is missing only if no broker has known it for as long as a
connection gets to be there, since one that starts knows none; and that after a cancellation, or any
other error, nothing is sent any more.
Known limits: a publisher that is opened anew has another id, so what the one before had sent
unconfirmed is there twice; batches are not compressed; a broker that may create topics does so.
*See:* `batches`, `verdict`, `cluster`; `events/relays/`, which uses it.
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
_BACKOFF = 0.1
# A Kafka topic that is being created has leaders within it.
_CREATION = 1.0
# Partitions that are added to a Kafka topic are used after it.
_LOOKED_UP = 60.0
# A request is sent when it holds so many bytes.
_MOST_OF_A_REQUEST = 8 * 1024 * 1024
# What an answer means for a batch that may be written.
_OF_UNCLEAR = {
    BatchVerdict.REPEATED: BatchVerdict.CONFIRMED,
    BatchVerdict.SPLIT: BatchVerdict.FENCED,
    BatchVerdict.REFUSED: BatchVerdict.FENCED,
}
# Why a Kafka topic is missing, and stays so.
_FINAL = (InvalidTopicError, TopicAuthorizationFailedError)
# A broker says that of a topic that it does not know yet, too.
_UNKNOWN = UnknownTopicOrPartitionError


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why something was not confirmed; final: it will not be, by this producer."""

    why: str
    final: bool = False


class KafkaPublisher:
    """A producer of one cluster."""

    def __init__(self, cluster: KafkaCluster, producer: tuple[int, int]) -> None:
        self._access = cluster.access
        self._cluster = cluster
        self._producer = producer
        self._sequences: dict[TopicPartition, int] = {}
        self._most_bytes: dict[str, int] = {}
        self._pages = 0
        self._looked_up = monotonic()

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """As the contract says."""
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
        """As the contract says."""
        await self._cluster.close()

    async def _publish_to(
        self, page: KafkaPage, topics: set[str], missing: Mapping[str, type[Exception]]
    ) -> None:
        """Publish what goes to these topics, and refuse it where they are missing."""
        if refused := topics & missing.keys():
            for place, message in enumerate(page.messages):
                if message.to in refused:
                    page.tell(place, refused_topic(message.to, missing[message.to]))
        leaders = {topic: self._cluster.leaders[topic] for topic in topics - refused}
        self._pages += 1
        page.lines = batched(page.messages, leaders, self._most_bytes, self._pages, page.tell)
        await self._publish(page)

    async def _find(self, topics: set[str]) -> dict[str, type[Exception]]:
        """Know the leaders of these topics, or why they are missing. Raises BrokerUnavailable."""
        missing: dict[str, type[Exception]] = {
            topic: InvalidTopicError for topic in topics if not is_valid(topic)
        }
        wanted = topics - missing.keys()
        if monotonic() - self._looked_up < _LOOKED_UP:
            wanted -= self._cluster.leaders.keys()
        else:
            self._looked_up = monotonic()
        if wanted:
            missing |= await self._look_up(wanted, (*_FINAL, _UNKNOWN), _CREATION)
        return missing

    async def _look_up(
        self, topics: set[str], final: Collection[type[Exception]], within: float
    ) -> dict[str, type[Exception]]:
        """Which are missing after so many seconds, or sooner if that is final, and why.

        Raises BrokerUnavailable.
        """
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
            await sleep(_BACKOFF)
            again = True

    async def _publish(self, page: KafkaPage) -> None:
        """Until nothing is left. Raises BrokerUnavailable."""
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
            await sleep(_BACKOFF)
            refused = await self._look_up_again(page, (*_FINAL, _UNKNOWN) if late else _FINAL)
            if late and not refused:
                raise self._access.unavailable(trouble.why)

    async def _look_up_again(self, page: KafkaPage, final: Collection[type[Exception]]) -> bool:
        """Leaders may have changed, Kafka topics may be gone; whether something was refused."""
        topics = {partition.topic for partition in page.lines}
        try:
            missing = await self._cluster.look_up(topics, elsewhere=True)
        except LOST:
            return False  # as the next attempt will find
        refused = False
        for partition, line in [*page.lines.items()]:
            why = missing.get(partition.topic)
            if why is not None and why in final and not line[0].unclear:
                page.refuse(partition, refused_topic(partition.topic, why))
                refused = True
        return refused

    async def _send_first_batches(self, page: KafkaPage) -> _Trouble | None:
        """Those of all partitions, to all brokers side by side."""
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
        """Send their first batches to the broker that leads them, and obey its answer."""
        sent: dict[TopicPartition, KafkaBatch] = {}
        size = 0
        for partition in partitions:
            batch = sent[partition] = page.lines[partition][0]
            size += len(batch.numbered(self._producer, self._sequences.get(partition, 0)))
            if size > _MOST_OF_A_REQUEST:
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
                troubles += self._obey(page, partition, sent.pop(partition), code)
        troubles += [_Trouble(f"{_named(partition)} was not answered") for partition in sent]
        return troubles

    def _obey(
        self, page: KafkaPage, partition: TopicPartition, batch: KafkaBatch, code: int
    ) -> list[_Trouble]:
        """Do what the answer to the first batch of a partition means."""
        found = verdict(code)
        if batch.unclear:
            # Its sequence may be spent, and would then hide another batch.
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
                return [_Trouble(f"{_named(partition)} was answered {meaning(code)}")]
            case BatchVerdict.REPEATED | BatchVerdict.FENCED:
                why = f"{_named(partition)} takes nothing more of this producer: {meaning(code)}"
                return [_Trouble(why, final=True)]
        return []

    def _split(
        self, page: KafkaPage, partition: TopicPartition, batch: KafkaBatch, code: int
    ) -> None:
        """Look for the message that a batch was refused for; alone, it is refused."""
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
    """Connect, and get a producer's id. Raises BrokerUnavailable or SettingsError."""
    cluster = await open_cluster(await access_to(name, broker))
    try:
        return KafkaPublisher(cluster, await _producer(cluster))
    except BaseException:
        await cluster.close()
        raise


async def _producer(cluster: KafkaCluster) -> tuple[int, int]:
    """An id and its epoch. Raises BrokerUnavailable."""
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
                f"it gives no producer's id: {meaning(answer.error_code)}; a user needs "
                "IDEMPOTENT_WRITE on the cluster, or WRITE on a Kafka topic."
            )
        await sleep(_BACKOFF)


def _request(batches: Mapping[TopicPartition, KafkaBatch]) -> ProduceRequest:
    topics: dict[str, list[tuple[int, bytearray | None]]] = {}
    for (topic, partition), batch in batches.items():
        topics.setdefault(topic, []).append((partition, batch.data))
    return ProduceRequest(None, _ALL_REPLICAS, _REPLICATION_MS, [*topics.items()])


def _named(partition: TopicPartition) -> str:
    return f"partition {partition.partition} of the Kafka topic {partition.topic!r}"
