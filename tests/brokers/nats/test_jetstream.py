"""Requests to JetStream and their answers."""

import pytest

from inboxd.brokers.nats.jetstream import stream_that_takes
from inboxd.brokers.nats.reaching import connect
from inboxd.settings import Broker
from tests.brokers.nats.conftest import Stream

pytestmark = pytest.mark.anyio


async def test_the_stream_that_takes_a_subject_is_found(broker: Broker, stream: Stream) -> None:
    connection = await connect("main", broker)
    try:
        for subject, taker in {
            f"{stream.prefix}.a": stream.name,
            f"{stream.prefix}.a.b": stream.name,
            stream.prefix: None,
            f"other.{stream.prefix}.a": None,
        }.items():
            assert await stream_that_takes(connection, subject) == taker, subject
    finally:
        await connection.end()
