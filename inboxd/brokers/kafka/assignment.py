"""The partitions assigned to a consumer, and the wait for messages or a new assignment.

aiokafka calls the listener from its own task, and fetches from the group's offsets until a seek.
"""

import asyncio
from collections.abc import Collection
from time import monotonic

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.structs import TopicPartition


class Assignment(ConsumerRebalanceListener):
    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.partitions: frozenset[TopicPartition] | None = None
        """The assigned partitions, new after each rebalance; None: a rebalance is under way."""
        self.since = monotonic()
        self._consumer = consumer
        self._waiter: asyncio.Future[None] | None = None

    def on_partitions_revoked(self, _: Collection[TopicPartition]) -> None:
        """Called with all partitions before a rebalance."""
        self._change(None)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._change(frozenset(assigned))

    async def wait(self, seconds: float) -> None:
        """Raises KafkaError. `getmany` would also wait for the end of a rebalance."""
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
