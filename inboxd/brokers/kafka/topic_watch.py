"""Notices that a Kafka topic is created anew while it is read, by its id.

aiokafka fetches without ids: it would go on in the new topic behind the offset of the old one.
Known limits: until the next look, messages of the new topic come with the old id, so the next
opening, too, finds a position of another topic; brokers before Kafka 2.8 have no ids.
"""

import asyncio
from collections.abc import Mapping
from time import monotonic

from inboxd.brokers.kafka.access import Access
from inboxd.brokers.kafka.topics import UNKNOWN, kafka_topics
from inboxd.errors import BrokerUnavailable

_LOOK_SECONDS = 10.0


class TopicWatch:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._ids: Mapping[str, str] = {}
        self._now: Mapping[str, str] = {}
        self._looked_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    def begin(self, ids: Mapping[str, str]) -> None:
        self._stop()
        self._ids = self._now = ids
        self._looked_at = monotonic()

    def recreated(self) -> tuple[str, str, str] | None:
        """A topic that has another id now: its name, its former id, and its id."""
        now = monotonic()
        done = self._looking is None or self._looking.done()
        if self._ids and done and now >= self._looked_at + _LOOK_SECONDS:
            self._looked_at = now
            self._looking = asyncio.create_task(self._look())
        return self.compared(self._now)

    def compared(self, now: Mapping[str, str]) -> tuple[str, str, str] | None:
        for name, id_ in now.items():
            before = self._ids.get(name, UNKNOWN)
            if UNKNOWN not in (before, id_) and before != id_:
                return name, before, id_
        return None

    async def close(self) -> None:
        self._stop()
        if self._looking is not None:
            await asyncio.wait([self._looking])

    def _stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        try:
            self._now = (await kafka_topics(self._access, [*self._ids])).ids
        except BrokerUnavailable:
            return  # the next look may succeed
