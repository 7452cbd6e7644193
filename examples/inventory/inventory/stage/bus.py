"""An event bus that delivers every message twice, each time under another message id.

    python -m inventory.stage.bus                   # creates its queue
    python -m inventory.stage.bus 7 lamp 3          # order 7: three lamps

Owns the RabbitMQ queue, which it creates if it is missing. Promises: a delivered message is on
RabbitMQ's disk.
Known limit: both deliveries come at once; a real bus may take days.
"""

import asyncio
import json
import sys
import uuid
from collections.abc import Iterable, Mapping

import aio_pika
from aio_pika.abc import AbstractChannel

QUEUE = "warehouse.orders"
DELIVERIES = 2

_URL = "amqp://guest:guest@127.0.0.1:5672/"


async def deliver(channel: AbstractChannel, orders: Iterable[Mapping[str, object]]) -> None:
    """Deliver each order DELIVERIES times."""
    await channel.declare_queue(QUEUE, durable=True)
    for order in orders:
        for _ in range(DELIVERIES):
            message = aio_pika.Message(
                json.dumps(order).encode(),
                content_type="application/json",
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=str(uuid.uuid4()),
            )
            await channel.default_exchange.publish(message, QUEUE)


async def _run(orders: Iterable[Mapping[str, object]]) -> None:
    async with await aio_pika.connect(_URL) as connection:
        await deliver(await connection.channel(), orders)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            asyncio.run(_run([]))
        case [order_id, article, pieces]:
            order = {"order_id": order_id, "article": article, "pieces": int(pieces)}
            asyncio.run(_run([order]))
        case _:
            raise SystemExit("usage: python -m inventory.stage.bus [ORDER ARTICLE PIECES]")
