"""What is sent for each message, as bytes of AMQP 0.9.1: written by hand, because it is what costs.

Promises that a message that AMQP has no room for is a MessageRefused for good, before anything of
it is sent. *See:* `connection`, for all other methods; `brokers/cloud_events.py`, for the headers.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import OutgoingMessage
from inboxd.errors import MessageRefused

PREFIX = "cloudEvents:"
CHANNEL = 1  # the only one
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8  # kinds of AMQP frames
END = 0xCE
HEAD = 7  # bytes of an AMQP frame before what it holds
OVERHEAD = 8  # and with the one behind it
FRAME = struct.Struct(">BHI")  # an AMQP frame's head: its kind, its channel, the size of the rest

_SHORT = 255  # most bytes of a "short string"
_RESERVED = ("CC", "BCC")  # headers by which RabbitMQ routes: a text there closes the channel
_CONTENT = struct.Struct(">BHIHHQ")  # the same, and the head of a message's properties
_CONTENT_SIZE = 12
_LONG = struct.Struct(">I")
_STAMP = struct.Struct(">Q")
_TAG = struct.Struct(">Q")
_SIGNED = struct.Struct(">q")
_END = bytes([END])
_BASIC = 60
# content_type, headers, delivery_mode, message_id, timestamp; and the same with type
_UNTYPED = struct.pack(">H", 0x8000 | 0x2000 | 0x1000 | 0x0080 | 0x0040)
_TYPED = struct.pack(">H", 0x8000 | 0x2000 | 0x1000 | 0x0080 | 0x0040 | 0x0020)
_PERSISTENT = b"\x02"


def stamp(seconds: float) -> bytes:
    """A time, as `published` takes it."""
    return _STAMP.pack(int(seconds))


def published(message: OutgoingMessage, at: bytes, frame_max: int) -> bytes:
    """That by which it is published: mandatory, and persistent. Raises MessageRefused."""
    headers = cloud_events.headers(message, PREFIX)
    pieces: list[bytes] = []
    for name, value in headers.items():
        text = value.encode()
        pieces += (_header_name(name), _LONG.pack(len(text)), text)
    table = b"".join(pieces)
    kind = message.attributes.get("type", "").encode()
    typed = 0 < len(kind) <= _SHORT  # a copy: what has no room for it is in the headers
    properties = b"".join(
        (
            _TYPED if typed else _UNTYPED,
            _short(message.content_type, "content type"),
            _LONG.pack(len(table)),
            table,
            _PERSISTENT,
            _short(message.id, "id"),
            at,
            bytes((len(kind),)) + kind if typed else b"",
        )
    )
    size = _CONTENT_SIZE + len(properties)
    if size > frame_max - OVERHEAD:
        raise MessageRefused(
            f"its headers take {size} bytes, and this RabbitMQ takes at most "
            f"{frame_max - OVERHEAD} (frame_max): let what emits the event send fewer.",
            for_good=True,
        )
    body = message.body
    content = _CONTENT.pack(HEADER, CHANNEL, size, _BASIC, 0, len(body))
    written = [_publish(message.exchange, message.to), content, properties, _END]
    most = frame_max - OVERHEAD
    for start in range(0, len(body), most):
        part = body if len(body) <= most else body[start : start + most]
        written += (FRAME.pack(BODY, CHANNEL, len(part)), part, _END)
    return b"".join(written)


def acknowledged(tag: int, *, multiple: bool) -> bytes:
    """basic.ack: of this delivery; multiple: and of all before it."""
    return method(_BASIC, 80, _TAG.pack(tag) + bytes([multiple]))


def declared_passively(queue: str) -> bytes:
    """queue.declare, passive: whether it is there, and how much is in it."""
    return method(50, 10, b"\0\0" + _text(queue) + b"\x01" + _LONG.pack(0))


def consumed(
    queue: str, tag: str, *, exclusive: bool = False, offset: int | str | None = None
) -> bytes:
    """basic.consume, with acknowledgements; exclusive: nobody else may consume then.

    offset: where a stream is begun: with that message, with the "first", with the "last" few.
    """
    bits = bytes([0b100 if exclusive else 0])
    table = b"" if offset is None else _text("x-stream-offset") + _value(offset)
    arguments = _LONG.pack(len(table)) + table
    return method(_BASIC, 20, b"\0\0" + _text(queue) + _text(tag) + bits + arguments)


def method(of: int, number: int, arguments: bytes) -> bytes:
    """A method of a class, both by their numbers."""
    head = FRAME.pack(METHOD, CHANNEL, 4 + len(arguments))
    return head + struct.pack(">HH", of, number) + arguments + _END


def _value(value: int | str) -> bytes:
    """In a table, with its kind."""
    if isinstance(value, int):
        return b"l" + _SIGNED.pack(value)
    text = value.encode()
    return b"S" + _LONG.pack(len(text)) + text


@lru_cache(1024)
def _publish(exchange: str, to: str) -> bytes:
    where = _short(exchange, "exchange") + _short(to, "routing key")
    return method(_BASIC, 40, b"\0\0" + where + b"\x01")


@lru_cache(1024)
def _header_name(name: str) -> bytes:
    """A header's name, and that a text follows."""
    if name in _RESERVED:
        raise MessageRefused(
            f"{name!r} cannot be a header, since RabbitMQ routes by it: let what emits the event "
            "name it otherwise.",
            for_good=True,
        )
    return _short(name, "header") + b"S"


def _short(text: str, what: str) -> bytes:
    try:
        return _text(text)
    except ValueError:  # too long, or a half of a surrogate pair
        shown = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - to be read
        raise MessageRefused(
            f"its {what} {shown!r} has more than {_SHORT} bytes, or is not UTF-8: RabbitMQ cannot "
            "take it. Correct the relay's `to` or `exchange`, or what emits the event.",
            for_good=True,
        ) from None


def _text(text: str) -> bytes:
    """A short string. Raises ValueError."""
    found = text.encode()
    return bytes((len(found),)) + found
