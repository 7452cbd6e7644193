"""The brokers of benchmarks: servers of NATS and RabbitMQ.

Owns the streams and queues that the benchmarks use. Promises: a plain client publishes as its
library's documentation recommends for speed: pipelined, a thousand at a time, each confirmation
awaited. It also consumes a thousand at a time, and acknowledges them when they are stored.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import aio_pika
import nats

from harness.rabbitmq import rabbitmq_server
from inboxd.embedded import free_port

PAGE = 1000
SUBJECT = "bench.out.v1"

Publish = Callable[[bytes, int], Awaitable[None]]
# Gets the bodies of one page of messages.
Store = Callable[[list[bytes]], Awaitable[None]]


class BenchBroker(Protocol):
    """A broker that receives messages to SUBJECT."""

    settings: dict[str, Any]

    async def emptied(self) -> None:
        """Delete all messages of the broker."""

    async def count(self) -> int:
        """The number of its messages."""

    def plain(self) -> AbstractAsyncContextManager[Publish]:
        """A plain client that publishes `count` messages with the same body."""

    @property
    def source(self) -> dict[str, Any]:
        """The settings of a source that reads its messages."""

    async def consume(self, count: int, store: Store) -> None:
        """Consume `count` messages by the plain client; `store` gets the bodies of each page."""


class Jetstream:
    """A NATS server with one stream, stored in a file."""

    def __init__(self, port: int) -> None:
        self.settings = {"kind": "nats", "servers": [f"127.0.0.1:{port}"]}
        self._url = f"nats://127.0.0.1:{port}"

    async def emptied(self) -> None:
        client = await nats.connect(self._url)
        stream = client.jetstream()
        with suppress(nats.js.errors.NotFoundError):
            await stream.delete_stream("BENCH")
        await stream.add_stream(name="BENCH", subjects=["bench.>"])
        await client.close()

    async def count(self) -> int:
        client = await nats.connect(self._url)
        info = await client.jetstream().stream_info("BENCH")
        await client.close()
        return info.state.messages

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Publish]:
        """Publish by `publish_async`, and await its futures."""
        client = await nats.connect(self._url)
        stream = client.jetstream(publish_async_max_pending=PAGE)

        async def publish(body: bytes, count: int) -> None:
            for size in _pages(count):
                futures = [await stream.publish_async(SUBJECT, body) for _ in range(size)]
                await asyncio.gather(*futures)

        yield publish
        await client.close()

    @property
    def source(self) -> dict[str, Any]:
        return {"nats_stream": "BENCH"}

    async def consume(self, count: int, store: Store) -> None:
        """Consume by `fetch`; the acknowledgement of a page's last message is for all of it."""
        client = await nats.connect(self._url)
        config = nats.js.api.ConsumerConfig(
            ack_policy=nats.js.api.AckPolicy.ALL, max_ack_pending=2 * PAGE
        )
        pull = await client.jetstream().pull_subscribe("bench.>", "plain", config=config)
        while count > 0:
            page = await pull.fetch(PAGE, timeout=10)
            await store([message.data for message in page])
            await page[-1].ack()
            count -= len(page)
        await client.close()


@contextmanager
def brokers(folder: Path) -> Iterator[dict[str, BenchBroker]]:
    """Run both brokers, each on a server of its own; yields them by name."""
    with _jetstream(folder) as stream, rabbitmq_server(folder) as server:
        yield {"NATS JetStream": stream, "RabbitMQ": RabbitQueue(server)}


@contextmanager
def _jetstream(folder: Path) -> Iterator[Jetstream]:
    """Run a NATS server, and yield its stream."""
    port = free_port()
    program = shutil.which("nats-server", path=f"{os.defpath}:/usr/sbin")
    if program is None:
        raise SystemExit("nats-server is not installed: apt install nats-server")
    process = subprocess.Popen(
        [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "nats")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Jetstream(port)
    finally:
        process.terminate()
        process.wait(10)


class RabbitQueue:
    """A durable queue on RabbitMQ."""

    def __init__(self, server: str) -> None:
        login = {"user": "guest", "password": "guest"}
        self.settings = {"kind": "rabbitmq", "servers": [server], **login}
        self._url = f"amqp://guest:guest@{server}/"

    async def emptied(self) -> None:
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(SUBJECT)
            await channel.declare_queue(SUBJECT, durable=True)

    async def count(self) -> int:
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(SUBJECT, passive=True)
            return queue.declaration_result.message_count or 0

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Publish]:
        """Publish persistent, mandatory, confirmed messages, a thousand at a time."""
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel(publisher_confirms=True)
            exchange = channel.default_exchange

            async def publish(body: bytes, count: int) -> None:
                for size in _pages(count):
                    await asyncio.gather(
                        *(
                            exchange.publish(
                                aio_pika.Message(body, delivery_mode=2), SUBJECT, mandatory=True
                            )
                            for _ in range(size)
                        )
                    )

            yield publish

    @property
    def source(self) -> dict[str, Any]:
        return {"rabbitmq_queue": SUBJECT}

    async def consume(self, count: int, store: Store) -> None:
        """Consume by a callback that gathers a page; one acknowledgement is for all of it."""
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=2 * PAGE)
            queue = await channel.get_queue(SUBJECT)
            came: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
            await queue.consume(came.put)
            while count > 0:
                page = [await came.get() for _ in range(min(PAGE, count))]
                await store([message.body for message in page])
                await page[-1].ack(multiple=True)
                count -= len(page)


def _pages(count: int) -> Iterator[int]:
    """The number of messages in each page, `count` in total."""
    for begin in range(0, count, PAGE):
        yield min(PAGE, count - begin)
