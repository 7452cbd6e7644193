"""A page that is being published: its batches that have no result yet."""

from collections.abc import Sequence

from aiokafka.structs import TopicPartition

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.brokers.kafka.batches import Lines
from inboxd.errors import MessageRefused


class KafkaPage:
    def __init__(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        self.messages = messages
        self.tell = tell
        self.lines: Lines = {}

    def told(self, partition: TopicPartition, refusal: MessageRefused | None = None) -> None:
        """Report the first batch of a partition as confirmed or refused."""
        line = self.lines[partition]
        for place in line.popleft().places:
            self.tell(place, refusal)
        if not line:
            del self.lines[partition]

    def refuse(self, partition: TopicPartition, refusal: MessageRefused) -> None:
        """Refuse all batches of a partition."""
        while partition in self.lines:
            self.told(partition, refusal)
