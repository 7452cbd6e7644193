"""Brokers of benchmarks: NATS and RabbitMQ, servers of their own.

Owns the streams and queues that they use. Promises that a plain client publishes as its library's
documentation has it for speed: pipelined, a thousand at a time, each confirmation awaited; and that
it consumes so, a thousand at a time, each thousand acknowledged once it is stored.
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
# Gets the bodies of some messages.
Store = Callable[[list[bytes]], Awaitable[None]]


class BenchBroker(Protocol):
    """A broker that takes what is sent to SUBJECT."""

    settings: dict[str, Any]

    async def emptied(self) -> None:
        """Throw away what it has."""

    async def count(self) -> int:
        """How many messages it has."""

    def plain(self) -> AbstractAsyncContextManager[Publish]:
        """Publishes so many messages of a body, by the plain client."""

    @property
    def source(self) -> dict[str, Any]:
        """The settings of a source that reads what it has."""

    async def consume(self, count: int, store: Store) -> None:
        """Consume so many messages by the plain client; `store` gets a page of bodies."""


class Jetstream:
    """A NATS server with one stream in a file."""

    def __init__(self, port: int) -> None:
        self.settings = {"kind": "nats", "servers": [f"127.0.0.1:{port}"]}
        self._url = f"nats://127.0.0.1:{port}"

    async def emptied(self) -> None:
        """The stream anew."""
        client = await nats.connect(self._url)
        stream = client.jetstream()
        with suppress(nats.js.errors.NotFoundError):
            await stream.delete_stream("BENCH")
        await stream.add_stream(name="BENCH", subjects=["bench.>"])
        await client.close()

    async def count(self) -> int:
        """Of the stream."""
        client = await nats.connect(self._url)
        info = await client.jetstream().stream_info("BENCH")
        await client.close()
        return info.state.messages

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Publish]:
        """`publish_async`, and its futures."""
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
        """The stream."""
        return {"nats_stream": "BENCH"}

    async def consume(self, count: int, store: Store) -> None:
        """`fetch`, and an acknowledgement of the last one for all."""
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
    """Both, by name, with a server each."""
    with _jetstream(folder) as stream, rabbitmq_server(folder) as server:
        yield {"NATS JetStream": stream, "RabbitMQ": RabbitQueue(server)}


@contextmanager
def _jetstream(folder: Path) -> Iterator[Jetstream]:
    """A server of its own."""
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
    """A durable queue."""

    def __init__(self, server: str) -> None:
        login = {"user": "guest", "password": "guest"}
        self.settings = {"kind": "rabbitmq", "servers": [server], **login}
        self._url = f"amqp://guest:guest@{server}/"

    async def emptied(self) -> None:
        """The queue anew."""
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(SUBJECT)
            await channel.declare_queue(SUBJECT, durable=True)

    async def count(self) -> int:
        """Of the queue."""
        async with await aio_pika.connect(self._url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(SUBJECT, passive=True)
            return queue.declaration_result.message_count or 0

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[Publish]:
        """Persistent, mandatory, confirmed; a thousand at once."""
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
        """The queue."""
        return {"rabbitmq_queue": SUBJECT}

    async def consume(self, count: int, store: Store) -> None:
        """A callback that gathers a page, and one acknowledgement for it."""
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
    """How many messages each page has, of so many in all."""
    for begin in range(0, count, PAGE):
        yield min(PAGE, count - begin)
