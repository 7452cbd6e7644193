"""A page that is published: which of its messages are not told yet."""

from collections.abc import Sequence

from aiokafka.structs import TopicPartition

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.kafka.batches import Lines
from inboxd.errors import MessageRefused


class KafkaPage:
    """What is published by one call, and not told yet."""

    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        self.messages = messages
        self.tell = tell
        self.lines: Lines = {}

    def told(self, partition: TopicPartition, refusal: MessageRefused | None = None) -> None:
        """The first batch of a partition is confirmed, or refused."""
        line = self.lines[partition]
        for place in line.popleft().places:
            self.tell(place, refusal)
        if not line:
            del self.lines[partition]

    def refuse(self, partition: TopicPartition, refusal: MessageRefused) -> None:
        """Nothing of a partition can be published."""
        while partition in self.lines:
            self.told(partition, refusal)
