"""Reads the body of a request, and no more of it than is wanted.

Promises: a body in one piece is handed on as it came; of one that is too large nothing is kept.
Known limit: the time that a body may take is the listener's to watch (`protocol.py`), which ends
the request.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from inboxd.inbound import answers
from inboxd.inbound.answers import Refusal
from inboxd.inbound.backpressure import InFlight

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]

_WHEN_BUSY = 1


class ClientGone(Exception):
    """The client closed its connection: nobody waits for an answer."""


class Room:
    """What one request takes of what may be in flight."""

    __slots__ = ("_in_flight", "_size")

    def __init__(self, in_flight: InFlight, announced: int) -> None:
        """Take room for a request, and for the body that it announces. Raises Refusal."""
        if in_flight.is_full:
            raise Refusal(answers.unavailable(_WHEN_BUSY), "busy", "max_requests")
        self._in_flight = in_flight
        self._size = 0
        self.grow(announced)
        in_flight.requests += 1

    def grow(self, size: int) -> None:
        """Take room for a body of this size. Raises Refusal."""
        more = size - self._size
        if more > 0:
            if not self._in_flight.reserve(more):
                raise Refusal(answers.unavailable(_WHEN_BUSY), "busy", "max_bytes")
            self._size = size

    def leave(self) -> None:
        """Give it back."""
        self._in_flight.requests -= 1
        self._in_flight.bytes -= self._size


async def read_body(receive: Receive, room: Room, most: int) -> bytes:
    """The body. Raises Refusal: it is too large, or there is no room; or ClientGone."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        return await _read_on(receive, room, most, body)
    if message["type"] == "http.disconnect":
        raise ClientGone
    take_room(len(body), room, most)
    return body


async def _read_on(receive: Receive, room: Room, most: int, first: bytes) -> bytes:
    chunks, size = [first], len(first)
    take_room(size, room, most)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        take_room(size, room, most)
        chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


def take_room(size: int, room: Room, most: int) -> None:
    """Take room for a body of this size. Raises Refusal."""
    if size > most:
        raise Refusal(answers.TOO_LARGE, "too_large")
    room.grow(size)
