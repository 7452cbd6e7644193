"""Connections to the brokers of a Kafka cluster, and which of them leads each partition.

aiokafka's own client is not used: it works in the background, and sends queued data when it is
closed. Here no byte is sent after `abort`, not even from the kernel's buffers. Known limit: a
change of leader is noticed only by a connection that breaks or a request that fails.
"""

import socket
import struct
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiokafka.errors import (
    KafkaConnectionError,
    LeaderNotAvailableError,
    NoError,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest
from anyio import move_on_after

from inboxd.brokers.kafka.access import (
    LOST,
    Access,
    Connection,
    connect,
    first_places,
    why_not_reached,
)

# With this option, closing the socket discards the kernel's unsent data.
_NO_LINGER = struct.pack("ii", 1, 0)
_NO_LEADER = -1
_CLOSE_SECONDS = 2.0


class KafkaCluster:
    """For one task at a time, except `send` to different brokers."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.leaders: dict[str, list[int]] = {}
        """By topic that was found: the leading broker of each partition, or -1."""
        self._places: dict[int, tuple[str, int]] = {}
        self._connections: dict[int, Connection] = {}
        self._answered = -1
        """The broker that answered the last `ask`."""

    async def send(self, broker: int, request: Any) -> Any:
        """The broker's answer. Raises one of `LOST`, and closes the connection then."""
        try:
            connection = await self._connected(broker)
            return await connection.send(request)
        except LOST:
            self._drop(broker)
            raise

    async def ask(self, request: Any, *, elsewhere: bool = False) -> Any:
        """Ask any broker. elsewhere: not the broker that was asked last. Raises one of `LOST`."""
        error: Exception = KafkaConnectionError("no broker is known")
        for broker in self._in_turn() if elsewhere else self._connected_first():
            try:
                answer = await self.send(broker, request)
            except LOST as lost:
                error = lost
            else:
                self._answered = broker
                return answer
        raise error

    async def look_up(
        self, topics: Iterable[str], *, create: bool = True, elsewhere: bool = False
    ) -> dict[str, type[Exception]]:
        """Returns why some are missing. create: the broker may do so. Raises one of `LOST`."""
        request = MetadataRequest(list(topics), create)
        return self._learn(await self.ask(request, elsewhere=elsewhere))

    async def learn_from(self, connection: Connection) -> None:
        self._learn(await connection.send(MetadataRequest([])))

    def leader(self, topic: str, partition: int) -> int | None:
        leaders = self.leaders.get(topic, [])
        found = leaders[partition] if partition < len(leaders) else _NO_LEADER
        return None if found == _NO_LEADER else found

    def abort(self) -> None:
        for connection in self._connections.values():
            abort(connection)

    async def close(self) -> None:
        ends = [abort(connection) for connection in self._connections.values()]
        with move_on_after(_CLOSE_SECONDS, shield=True):
            for end in ends:
                await end
        self._connections.clear()

    def _connected_first(self) -> list[int]:
        return sorted(self._places, key=self._connections.__contains__, reverse=True)

    def _in_turn(self) -> list[int]:
        brokers = sorted(self._places)
        first = bisect_right(brokers, self._answered)
        return brokers[first:] + brokers[:first]

    async def _connected(self, broker: int) -> Connection:
        found = self._connections.get(broker)
        if found is None or not found.connected():
            if broker not in self._places:
                raise KafkaConnectionError(f"broker {broker} is not known")
            found = await connect(self.access, *self._places[broker])
            self._connections[broker] = found
        return found

    def _drop(self, broker: int) -> None:
        if (connection := self._connections.pop(broker, None)) is not None:
            abort(connection)

    def _learn(self, metadata: Any) -> dict[str, type[Exception]]:
        if metadata.brokers:
            self._places = {node: (host, port) for node, host, port, *_ in metadata.brokers}
        missing = {}
        for code, topic, *_, partitions in metadata.topics:
            error = for_code(code)
            if error is NoError and not partitions:
                error = LeaderNotAvailableError
            if error is NoError:
                self.leaders[topic] = _leaders(partitions)
            else:
                self.leaders.pop(topic, None)
                missing[topic] = error
        return missing


async def open_cluster(access: Access) -> KafkaCluster:
    """Connect to the first server that answers. Raises BrokerUnavailable."""
    cluster = KafkaCluster(access)
    reason: Exception = KafkaConnectionError("no servers are set")
    for host, port in first_places(access):
        try:
            connection = await connect(access, host, port)
            try:
                await cluster.learn_from(connection)
            finally:
                abort(connection)
        except LOST as error:
            reason = error
        else:
            return cluster
    raise access.unavailable(why_not_reached(access, reason)) from reason


def abort(connection: Connection) -> Any:
    """Close a connection and discard its queued data; returns an awaitable for its end."""
    if (writer := connection._writer) is not None:  # noqa: SLF001 - the library offers no other way
        with suppress(OSError):
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER
            )
        writer.transport.abort()
    return connection.close()


def _leaders(partitions: Iterable[Any]) -> list[int]:
    found = {partition: leader for _, partition, leader, *_ in partitions}
    return [found.get(partition, _NO_LEADER) for partition in range(max(found, default=-1) + 1)]
