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
        line = self.lines[partition]
        for place in line.popleft().places:
            self.tell(place, refusal)
        if not line:
            del self.lines[partition]

    def refuse(self, partition: TopicPartition, refusal: MessageRefused) -> None:
        while partition in self.lines:
            self.told(partition, refusal)
