"""Fixtures of the tests of RabbitMQ: the server of all tests, and a queue for each test."""

import uuid
from collections.abc import AsyncIterator

import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from inboxd.settings import Broker
from tests.brokers.rabbitmq.published import broker_at
from tests.support.rabbitmq import RabbitMQServer, plain_channel


@pytest.fixture
def server(rabbitmq: RabbitMQServer) -> RabbitMQServer:
    """The server of all tests; a test that stops it starts it again."""
    return rabbitmq


@pytest.fixture
def broker(server: RabbitMQServer) -> Broker:
    return broker_at(server.address)


@pytest.fixture
async def channel(server: RabbitMQServer) -> AsyncIterator[AbstractChannel]:
    """A channel of a plain client."""
    async with plain_channel(server) as opened:
        yield opened


@pytest.fixture
async def queue(channel: AbstractChannel) -> AbstractQueue:
    """A queue of the test's own."""
    return await channel.declare_queue(uuid.uuid4().hex, durable=True)
