"""The services of users and of products, as the shop sees them: each has a broker of its own.

    python -m orders.stage.services                 # creates the stream and the queue
    python -m orders.stage.services user 7 active suspect
    python -m orders.stage.services product 2 offered suspect

Owns the NATS stream and the RabbitMQ queue. The service of users publishes CloudEvents, whose
headers describe the message; the service of products publishes plain JSON.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

import aio_pika
import nats
from aio_pika.abc import AbstractChannel
from nats.js import JetStreamContext

STREAM = "USERS"
QUEUE = "products.status"

_NATS = "nats://127.0.0.1:4222"
_RABBITMQ = "amqp://guest:guest@127.0.0.1:5672/"


async def make_places(jetstream: JetStreamContext, channel: AbstractChannel) -> None:
    """Create the stream and the queue, unless they exist."""
    await jetstream.add_stream(name=STREAM, subjects=["users.>"])
    await channel.declare_queue(QUEUE, durable=True)


async def publish_user(
    jetstream: JetStreamContext, payload: Mapping[str, object], version: int = 2
) -> None:
    """Publish a change of a user's status; the payload of version 1 has other names."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": str(uuid.uuid4()),
        "ce-source": "/users",
        "ce-type": "user.status_updated",
        "ce-time": datetime.now(UTC).isoformat(),
        "ce-schemaversion": str(version),
        "content-type": "application/json",
    }
    await jetstream.publish("users.status", json.dumps(payload).encode(), headers=headers)


async def publish_product(channel: AbstractChannel, payload: Mapping[str, object]) -> None:
    """Publish a change of a product's status."""
    message = aio_pika.Message(
        json.dumps(payload).encode(),
        content_type="application/json",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        message_id=str(uuid.uuid4()),
        timestamp=datetime.now(UTC),
    )
    await channel.default_exchange.publish(message, QUEUE)


async def _run(arguments: list[str]) -> None:
    client = await nats.connect(_NATS)
    async with await aio_pika.connect(_RABBITMQ) as connection:
        jetstream, channel = client.jetstream(), await connection.channel()
        await make_places(jetstream, channel)
        match arguments:
            case []:
                pass
            case ["user", number, previous, current]:
                user = {"user_id": int(number), "previous": previous, "current": current}
                await publish_user(jetstream, user)
            case ["product", number, previous, current]:
                product = {"product_id": int(number), "previous": previous, "current": current}
                await publish_product(channel, product)
            case _:
                raise SystemExit("usage: … services [user|product ID PREVIOUS CURRENT]")
    await client.close()


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1:]))
