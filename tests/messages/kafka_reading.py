"""Workers in a test's own loop that read from the mock of Kafka, and messages for them.

async with reading(database, kafka, topic):
    await publish(kafka, topic, 1, 10)
    await stored(database, 10)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from inboxd import Event, EventContext, Handlers
from inboxd.daemon import worker
from inboxd.settings import Settings
from tests.messages.consuming import body, consuming
from tests.support import Database
from tests.support.kafka import MockKafka
from tests.support.kafka_published import outgoing, published, publisher_to

KEYS = 12


@asynccontextmanager
async def reading(database: Database, kafka: MockKafka, topic: str) -> AsyncIterator[None]:
    """A worker in the test's own loop reads a Kafka topic, and settles its events at once."""
    broker = {"kind": "kafka", "servers": [*kafka.servers], "connect_timeout": "2s"}
    source = {"kafka_topics": [topic], "kafka_group": topic, "page_rows": 100}
    config = consuming(broker, source)
    settings = Settings.model_validate(
        {
            "database": {"dsn": database.dsn},
            "brokers": config["brokers"],
            "inbound": config["inbound"],
        }
    )
    handlers = Handlers("reader")

    @handlers.event("test.noop")
    async def pass_by(event: Event[Any], ctx: EventContext) -> None:
        """Settle each event at once, so that the test finds an event that is stored twice."""

    async with worker(settings, handlers=[handlers]):
        yield


async def publish(kafka: MockKafka, topic: str, start: int, end: int) -> None:
    """Publish numbers `start` to `end`, with twelve keys."""
    async with publisher_to(kafka) as publisher:
        for first in range(start, end + 1, 20):
            page = range(first, min(first + 20, end + 1))
            messages = [outgoing(topic, body(n), key=f"k{n % KEYS}") for n in page]
            assert not await published(publisher, messages)
