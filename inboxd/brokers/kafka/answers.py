"""Whether brokers still answer a consumer: aiokafka asks for ever, and says nothing.

Promises that a wait for messages which nobody will send ends in an error. It is asked when nothing
is there, so what is not fetched since nobody receives it is no silence. Known limit: while each
page is full, nobody asks.
"""

from collections.abc import Iterable
from time import monotonic

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from inboxd.brokers.kafka.access import Access
from inboxd.brokers.kafka.assignment import Assignment
from inboxd.brokers.kafka.messages import stream

# How often the time that a connection gets.
_SILENCE = 3
# A group that divides its partitions for longer will not be done.
_DIVIDING = 60.0


class Answers:
    """Those to one consumer."""

    def __init__(self, access: Access, consumer: AIOKafkaConsumer, assignment: Assignment) -> None:
        self._access = access
        self._consumer = consumer
        self._assignment = assignment
        # aiokafka's time of the last answer for a partition, and since when it is that.
        self._last: dict[TopicPartition, tuple[int | None, float]] = {}

    def begin(self) -> None:
        """Other partitions are read from now on."""
        self._last.clear()

    def came(self, partition: TopicPartition) -> None:
        """It is not asked for again while what it has is not received."""
        self._last.pop(partition, None)

    def check(self, topics: Iterable[str]) -> None:
        """Raises BrokerUnavailable."""
        now = monotonic()
        assigned = self._assignment.partitions
        if assigned is None:
            if now - self._assignment.since > _DIVIDING:
                raise self._access.unavailable(
                    f"the group has not divided its partitions for {_DIVIDING:g} s: look at the "
                    "brokers, and at the group's other members."
                )
            return
        for topic in topics:
            if not self._consumer.partitions_for_topic(topic):
                raise self._access.unavailable(
                    f"there is no Kafka topic {topic!r} any more: create it, or correct "
                    "kafka_topics."
                )
        silence = _SILENCE * self._access.patience
        for partition in assigned:
            answered = self._consumer.last_poll_timestamp(partition)
            before, since = self._last.setdefault(partition, (answered, now))
            if answered != before:
                self._last[partition] = (answered, now)
            elif now - since > silence:
                raise self._access.unavailable(
                    f"partition {stream(partition)} was not answered for {silence:g} s: look at "
                    "the broker that leads it."
                )
