"""Fixtures of the tests of NATS: a server for a module, and a stream for each test."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import StreamInfo

from inboxd.settings import Broker
from tests.support.nats import NatsServer, jetstream, nats_server


@pytest.fixture(scope="module")
def server(one_nats: None) -> Iterator[NatsServer]:
    """A server that the tests of a module share."""
    with nats_server() as running:
        yield running


@pytest.fixture
def broker(server: NatsServer) -> Broker:
    return broker_at(server.address)


@pytest.fixture
async def js(server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """JetStream through a plain client of nats-py."""
    async with jetstream(server) as context:
        yield context


@dataclass(frozen=True)
class Stream:
    """A test's own stream: it takes all subjects below its prefix."""

    js: JetStreamContext
    name: str
    prefix: str

    async def info(self) -> StreamInfo:
        return await self.js.stream_info(self.name)

    async def count(self) -> int:
        return (await self.info()).state.messages

    async def fill(self, count: int, subject: str = "a") -> None:
        """Publish messages 1 to `count`, each with its number as its body."""
        for number in range(1, count + 1):
            await self.js.publish(f"{self.prefix}.{subject}", str(number).encode())


@pytest.fixture
async def stream(js: JetStreamContext) -> Stream:
    """A stream that keeps everything."""
    return await make_stream(js)


async def make_stream(js: JetStreamContext, **config: Any) -> Stream:
    """A test's own stream. config: as nats-py has it."""
    prefix = uuid.uuid4().hex[:12]
    name = f"S{prefix}"
    await js.add_stream(name=name, subjects=[f"{prefix}.>"], **config)
    return Stream(js, name, prefix)


def broker_at(*servers: str, **more: object) -> Broker:
    """The settings of a broker with these servers."""
    return Broker.model_validate({"kind": "nats", "servers": servers, **more})
