"""Notices that brokers no longer answer a consumer: aiokafka retries forever and reports nothing.

Checks only after an empty receive, since a partition with waiting messages is not fetched. Known
limit: while each page is full, nothing is checked.
"""

from collections.abc import Iterable
from time import monotonic

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from inboxd.brokers.kafka.access import Access
from inboxd.brokers.kafka.assignment import Assignment
from inboxd.brokers.kafka.messages import stream

# The allowed silence, as a multiple of a connection's time limit.
_SILENT_TIME_LIMITS = 3
# A rebalance that takes longer will not end without help.
_REBALANCE_SECONDS = 60.0


class Answers:
    def __init__(self, access: Access, consumer: AIOKafkaConsumer, assignment: Assignment) -> None:
        self._access = access
        self._consumer = consumer
        self._assignment = assignment
        # By partition: the time of the last answer, as aiokafka reports it, and our time when this
        # report last changed.
        self._last: dict[TopicPartition, tuple[int | None, float]] = {}

    def begin(self) -> None:
        self._last.clear()

    def came(self, partition: TopicPartition) -> None:
        """Restart a partition's clock: it is fetched again, since its messages were received."""
        self._last.pop(partition, None)

    def check(self, topics: Iterable[str]) -> None:
        """Raises BrokerUnavailable for missing answers."""
        now = monotonic()
        assigned = self._assignment.partitions
        if assigned is None:
            if now - self._assignment.since > _REBALANCE_SECONDS:
                raise self._access.unavailable(
                    f"the group has been rebalancing for {_REBALANCE_SECONDS:g} s: check the "
                    "brokers, and the other members of the group."
                )
            return
        for topic in topics:
            if not self._consumer.partitions_for_topic(topic):
                raise self._access.unavailable(
                    f"there is no Kafka topic {topic!r} any more: create it, or correct "
                    "kafka_topics."
                )
        silence = _SILENT_TIME_LIMITS * self._access.patience
        for partition in assigned:
            answered = self._consumer.last_poll_timestamp(partition)
            before, since = self._last.setdefault(partition, (answered, now))
            if answered != before:
                self._last[partition] = (answered, now)
            elif now - since > silence:
                raise self._access.unavailable(
                    f"no answer for partition {stream(partition)} for {silence:g} s: check the "
                    "broker that leads it."
                )
