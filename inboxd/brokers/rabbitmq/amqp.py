"""Writes the bytes of AMQP 0.9.1 for each message; by hand, since they cost the most time."""

from __future__ import annotations

import struct
from functools import lru_cache

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import OutgoingMessage
from inboxd.errors import MessageRefused

PREFIX = "cloudEvents:"
CHANNEL = 1  # the only channel
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8  # kinds of AMQP frames
END = 0xCE
HEAD = 7  # bytes of an AMQP frame before its payload
OVERHEAD = 8  # bytes of an AMQP frame in addition to its payload
FRAME = struct.Struct(">BHI")  # an AMQP frame's head: kind, channel, size of the payload

_SHORT = 255  # maximum bytes of a "short string"
_RESERVED = ("CC", "BCC")  # RabbitMQ routes by these headers: a string in them closes the channel
_CONTENT = struct.Struct(">BHIHHQ")  # a frame's head, and the head of a message's properties
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
    return _STAMP.pack(int(seconds))


def published(message: OutgoingMessage, at: bytes, frame_max: int) -> bytes:
    """The frames that publish a message: mandatory, and persistent. Raises MessageRefused."""
    headers = cloud_events.headers(message, PREFIX)
    pieces: list[bytes] = []
    for name, value in headers.items():
        text = value.encode()
        pieces += (_header_name(name), _LONG.pack(len(text)), text)
    table = b"".join(pieces)
    kind = message.attributes.get("type", "").encode()
    typed = 0 < len(kind) <= _SHORT  # a copy of a header; left out if too long
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
            f"{frame_max - OVERHEAD} (frame_max): emit the event with fewer headers.",
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
    """basic.ack of a delivery; multiple: also of all deliveries before it."""
    return method(_BASIC, 80, _TAG.pack(tag) + bytes([multiple]))


def declared_passively(queue: str) -> bytes:
    """queue.declare, passive: asks whether a queue exists, and how many messages it has."""
    return method(50, 10, b"\0\0" + _text(queue) + b"\x01" + _LONG.pack(0))


def consumed(
    queue: str, tag: str, *, exclusive: bool = False, offset: int | str | None = None
) -> bytes:
    """offset: in a stream; or "first", its first message, or "last", its last chunk."""
    bits = bytes([0b100 if exclusive else 0])
    table = b"" if offset is None else _text("x-stream-offset") + _value(offset)
    arguments = _LONG.pack(len(table)) + table
    return method(_BASIC, 20, b"\0\0" + _text(queue) + _text(tag) + bits + arguments)


def method(of: int, number: int, arguments: bytes) -> bytes:
    """of, number: of the class and of the method."""
    head = FRAME.pack(METHOD, CHANNEL, 4 + len(arguments))
    return head + struct.pack(">HH", of, number) + arguments + _END


def _value(value: int | str) -> bytes:
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
    if name in _RESERVED:
        raise MessageRefused(
            f"RabbitMQ routes by the header {name!r}, so an event must not have it: emit the event "
            "with another name for it.",
            for_good=True,
        )
    return _short(name, "header") + b"S"


def _short(text: str, what: str) -> bytes:
    try:
        return _text(text)
    except ValueError:  # too long, or a half of a surrogate pair
        shown = text if len(text) <= 80 else f"{text[:80]}…"  # noqa: PLR2004 - short enough to read
        raise MessageRefused(
            f"its {what} {shown!r} has more than {_SHORT} bytes, or is not UTF-8: RabbitMQ cannot "
            "take it. Correct the relay's `to` or `exchange`, or the event.",
            for_good=True,
        ) from None


def _text(text: str) -> bytes:
    """A short string. Raises ValueError if it is too long."""
    found = text.encode()
    return bytes((len(found),)) + found
