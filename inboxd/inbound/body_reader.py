"""Reads the body of a request, up to the bound of its source; the time limit is the listener's."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import anyio

from inboxd.inbound import answers
from inboxd.inbound.answers import Refusal
from inboxd.inbound.backpressure import ComingBody, InFlight
from inboxd.model.addresses import subscriber

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

_SECONDS_WHEN_BUSY = 1


class ClientGone(Exception):
    """The client closed its connection: an answer cannot be sent."""


class Room:
    __slots__ = ("_address", "_coming", "_in_flight", "_left", "_size")

    def __init__(self, in_flight: InFlight, address: str | None) -> None:
        """Take room for a request of this address. Raises Refusal."""
        if not in_flight.begin(address):
            raise Refusal(answers.unavailable(_SECONDS_WHEN_BUSY), "busy", "max_requests")
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
                raise Refusal(answers.unavailable(_SECONDS_WHEN_BUSY), "busy", "max_bytes")
            self._size = size

    def leave(self) -> None:
        """Free the room; repeated calls do nothing."""
        if not self._left:
            self._left = True
            self._in_flight.requests -= 1
            self._in_flight.bytes -= self._size

    async def fill(self, receive: Receive, most: int) -> bytes:
        """Raises ClientGone; or Refusal: too large, no room, or slow while others need its room."""
        with anyio.CancelScope() as scope:

            def give_way() -> None:
                self.leave()
                scope.cancel()

            coming = self._coming = self._in_flight.expect(self._address, give_way)
            try:
                chunks, more = list[bytes](), True
                while more:
                    message = await receive()
                    if self._left:  # this request was ended while the part arrived
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
                self._coming = None  # it refers to this room: avoids a reference cycle
        raise Refusal(answers.unavailable(_SECONDS_WHEN_BUSY), "busy", "its body came too slowly")


def take_room(size: int, room: Room, most: int) -> None:
    """Check the size, and take room for a body. Raises Refusal."""
    if size > most:
        raise Refusal(answers.TOO_LARGE, "too_large")
    room.grow(size)
