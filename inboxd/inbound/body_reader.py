"""Reads the body of a request, and no more of it than is wanted.

Promises: a body in one piece is handed on as it came; of one that is too large nothing is kept; who
gives way to others leaves its room at once. Known limit: the time that a body may take is the
listener's to watch (`protocol.py`), which ends the request.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import anyio

from inboxd.inbound import answers
from inboxd.inbound.answers import Refusal
from inboxd.inbound.backpressure import ComingBody, InFlight
from inboxd.model.addresses import subscriber

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

_WHEN_BUSY = 1


class ClientGone(Exception):
    """The client closed its connection: nobody waits for an answer."""


class Room:
    """What one request takes of what may be in flight: for itself, and for what has come of it."""

    __slots__ = ("_address", "_coming", "_in_flight", "_left", "_size")

    def __init__(self, in_flight: InFlight, address: str | None) -> None:
        """Take room for a request of this address. Raises Refusal."""
        if not in_flight.begin(address):
            raise Refusal(answers.unavailable(_WHEN_BUSY), "busy", "max_requests")
        self._address = None if address is None else subscriber(address)
        self._in_flight = in_flight
        self._coming: ComingBody | None = None
        self._left = False
        self._size = 0

    def grow(self, size: int) -> None:
        """Take room for a body of this size. Raises Refusal."""
        more = size - self._size
        if more > 0:
            if not self._in_flight.reserve(more, self._address, self._coming):
                raise Refusal(answers.unavailable(_WHEN_BUSY), "busy", "max_bytes")
            self._size = size

    def leave(self) -> None:
        """Give it back; only the first time counts."""
        if not self._left:
            self._left = True
            self._in_flight.requests -= 1
            self._in_flight.bytes -= self._size

    async def fill(self, receive: Receive, most: int) -> bytes:
        """The body. Raises Refusal: too large, no room, or too slow while others want its room.

        Raises ClientGone.
        """
        with anyio.CancelScope() as scope:

            def give_way() -> None:
                self.leave()
                scope.cancel()

            coming = self._coming = self._in_flight.expect(self._address, give_way)
            try:
                chunks, more = list[bytes](), True
                while more:
                    message = await receive()
                    if self._left:  # it came in the moment in which this one gave way
                        break
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    chunk = message.get("body", b"")
                    coming.size += len(chunk)
                    take_room(coming.size, self, most)
                    chunks.append(chunk)
                    more = message.get("more_body", False)
                if not self._left:
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            finally:
                self._in_flight.coming.discard(coming)
                self._coming = None  # it refers to this room: no cycle is left for the collector
        raise Refusal(answers.unavailable(_WHEN_BUSY), "busy", "its body came too slowly")


def take_room(size: int, room: Room, most: int) -> None:
    """Take room for a body of this size. Raises Refusal."""
    if size > most:
        raise Refusal(answers.TOO_LARGE, "too_large")
    room.grow(size)
