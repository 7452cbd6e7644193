"""Queues and streams of RabbitMQ for whole workers: settings, and messages through a plain client.

async with made_queue(rabbitmq, stream=True) as stream:
    await start_worker(following(rabbitmq, stream))
    await stream.publish(0, 9)
    assert await stored(database, 10) == [*range(10)]
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel
from pamqp.common import FieldTable

from tests.messages.consuming import body, consuming
from tests.support import Config, eventually
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel


@dataclass(frozen=True)
class Queue:
    """A queue or a stream of the test's own, through a plain client."""

    channel: AbstractChannel
    name: str

    async def publish(self, start: int, end: int) -> None:
        """Publish numbers, each with an id of its own."""
        for number in range(start, end + 1):
            await self.put(body(number), f"m-{number}")

    async def put(self, body: bytes, id: str) -> None:
        message = aio_pika.Message(body, message_id=id)
        await self.channel.default_exchange.publish(message, self.name)

    async def is_empty(self) -> None:
        """Wait until no message is ready."""

        async def empty() -> bool:
            declared = await self.channel.declare_queue(self.name, durable=True, passive=True)
            return declared.declaration_result.message_count == 0

        await eventually(empty)

    async def is_left(self) -> None:
        """Wait until the queue has no consumer."""

        async def left() -> bool:
            declared = await self.channel.declare_queue(self.name, durable=True, passive=True)
            return declared.declaration_result.consumer_count == 0

        await eventually(left)


@asynccontextmanager
async def made_queue(server: RabbitMQServer, *, stream: bool = False) -> AsyncIterator[Queue]:
    """An empty queue, or a stream, which is deleted at the end."""
    async with plain_channel(server) as channel:
        name = uuid.uuid4().hex
        arguments: FieldTable | None = {"x-queue-type": "stream"} if stream else None
        await channel.declare_queue(name, durable=True, arguments=arguments)
        yield Queue(channel, name)
        await channel.queue_delete(name)


def reading(server: RabbitMQServer, queue: Queue, **source: Any) -> Config:
    """The settings of a worker that reads a queue."""
    return consuming(_broker(server), {"rabbitmq_queue": queue.name, **source})


def following(server: RabbitMQServer, stream: Queue) -> Config:
    """The settings of a worker that reads a stream."""
    broker = {**_broker(server), "connect_timeout": "2s"}
    return consuming(broker, {"rabbitmq_stream": stream.name, "page_rows": 50})


def _broker(server: RabbitMQServer) -> dict[str, Any]:
    login = {"user": USER, "password": PASSWORD}
    return {"kind": "rabbitmq", "servers": [server.address], **login}
