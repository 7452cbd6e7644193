"""Which partitions a consumer has, as its group says; and the wait for something to happen.

aiokafka calls it from its own task. What it fetches of new partitions, from where the group has
committed, is thrown away when they are begun.
"""

import asyncio
from collections.abc import Collection
from time import monotonic

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.structs import TopicPartition


class Assignment(ConsumerRebalanceListener):
    """That of one consumer."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.partitions: frozenset[TopicPartition] | None = None
        """Another set each time; None: the group is dividing them."""
        self.since = monotonic()
        self._consumer = consumer
        self._waiter: asyncio.Future[None] | None = None

    def on_partitions_revoked(self, _: Collection[TopicPartition]) -> None:
        """All of them, before they are divided anew."""
        self._change(None)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """What is ours from now on."""
        self._change(frozenset(assigned))

    async def wait(self, seconds: float) -> None:
        """Until messages came, or partitions changed. Raises KafkaError for what ended the group.

        By the future that aiokafka's own `getmany` waits for: that one would wait for the group
        too, as long as it takes.
        """
        waiter = self._waiter = self._consumer._fetcher._create_fetch_waiter()  # noqa: SLF001
        try:
            await asyncio.wait([waiter], timeout=seconds)
            if waiter.done():
                waiter.result()
        finally:
            self._waiter = None
            waiter.cancel()

    def _change(self, partitions: frozenset[TopicPartition] | None) -> None:
        self.partitions, self.since = partitions, monotonic()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
