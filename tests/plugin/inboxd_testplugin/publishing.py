"""A publisher of a plugin's own: each message and each answer is a line of JSON.

The other side is tests/support/line_broker.py.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress

from inboxd.brokers.contract import OutgoingMessage, Tell
from inboxd.errors import BrokerUnavailable, MessageRefused
from inboxd.settings import Broker


class LinePublisher:
    """A connection to a line broker."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        """Publish the messages, and wait for an answer to each."""
        for place, each in enumerate(messages):
            said = {
                "place": place,
                "to": each.to,
                "key": each.key,
                "id": each.id,
                "body": json.loads(each.body),
                "attributes": dict(each.attributes),
                "headers": dict(each.headers),
            }
            self._writer.write(json.dumps(said).encode() + b"\n")
        try:
            await self._writer.drain()
            for _ in messages:
                line = await self._reader.readline()
                if not line:
                    raise BrokerUnavailable("the line broker has hung up")
                answer = json.loads(line)
                error = None
                if "refused" in answer:
                    error = MessageRefused(
                        answer["refused"],
                        for_good=answer["for_good"],
                        unroutable=answer["unroutable"],
                    )
                tell(answer["place"], error)
        except OSError as error:
            raise BrokerUnavailable(f"the line broker is gone: {error}") from error

    async def close(self) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()


async def open_publisher(name: str, broker: Broker) -> LinePublisher:
    """Implements the entry point `inboxd.publishers`."""
    host, _, port = broker.servers[0].rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError as error:
        raise BrokerUnavailable(f"the broker {name!r} cannot be reached: {error}") from error
    return LinePublisher(reader, writer)
