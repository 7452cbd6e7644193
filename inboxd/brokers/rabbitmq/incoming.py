"""Reads messages from bytes of AMQP 0.9.1.

Unreadable properties are left out: after an error the message would come again and again. Known
limit: tables and lists in headers, such as `x-death`, are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

_NUMBER = struct.Struct(">Q")  # a delivery's number
_STAMP = struct.Struct(">Q")
_LONG = struct.Struct(">I")
_CONTENT = struct.Struct(">HHQH")  # class, weight, size of the body, flags


@dataclass(slots=True)
class AmqpProperties:
    """headers: lower case; AMQP's own, such as `type`, override. time: seconds since the epoch."""

    headers: dict[str, str] = field(default_factory=dict)
    time: float | None = None


def delivery(payload: bytes) -> tuple[int, bool, str]:
    """basic.deliver: its tag, whether the message came before, its routing key."""
    at = 5 + payload[4]  # behind the consumer's tag
    (tag,) = _NUMBER.unpack_from(payload, at)
    again = payload[at + 8] & 1
    at += 9
    at += 1 + payload[at]  # the exchange
    return tag, bool(again), _decoded(payload[at + 1 : at + 1 + payload[at]])


def returned(payload: bytes) -> tuple[str, str, str]:
    """basic.return: the reason, the exchange, the routing key."""
    at, texts = 6, []  # behind a code, which the reason repeats
    for _ in range(3):
        behind = at + 1 + payload[at]
        texts.append(_decoded(payload[at + 1 : behind]))
        at = behind
    why, exchange, to = texts
    return why, exchange, to


def confirmation(payload: bytes) -> tuple[int, bool]:
    """basic.ack, basic.nack: a delivery's number, and whether it includes all before it."""
    (tag,) = _NUMBER.unpack_from(payload, 4)
    return tag, bool(payload[12] & 1)


def content(payload: bytes) -> tuple[int, AmqpProperties]:
    """A content header: the size of the body, and the properties."""
    _, _, size, flags = _CONTENT.unpack_from(payload)
    found = AmqpProperties()
    texts: dict[str, str] = {}
    at = _CONTENT.size
    try:
        for name in _present(flags):
            at = _property(payload, at, name, found, texts)
    except (IndexError, struct.error):  # the properties are cut short
        pass
    found.headers.update(texts)
    return size, found


# In the order of their flags, the highest first.
_PROPERTIES = (
    "content-type",
    "content-encoding",
    "headers",
    "delivery-mode",
    "priority",
    "correlation-id",
    "reply-to",
    "expiration",
    "message-id",
    "timestamp",
    "type",
    "user-id",
    "app-id",
    "cluster-id",
)


@lru_cache(256)
def _present(flags: int) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(_PROPERTIES) if flags & (0x8000 >> bit))


def _property(
    payload: bytes, at: int, name: str, found: AmqpProperties, texts: dict[str, str]
) -> int:
    """Read a property; returns where the next one begins."""
    if name == "headers":
        (size,) = _LONG.unpack_from(payload, at)
        at += 4
        for key, value in _table(payload, at, at + size):
            found.headers[key.lower()] = value
        return at + int(size)
    if name in ("delivery-mode", "priority"):
        return at + 1
    if name == "timestamp":
        found.time = _seconds(*_STAMP.unpack_from(payload, at))
        return at + 8
    stop = at + 1 + payload[at]
    texts[name] = _decoded(payload[at + 1 : stop])
    return stop


def _table(payload: bytes, at: int, stop: int) -> Iterator[tuple[str, str]]:
    """Only values that can be strings, up to a header of an unknown kind; raises if cut short."""
    while at < stop:
        behind = at + 1 + payload[at]
        name, kind = _decoded(payload[at + 1 : behind]), payload[behind]
        at = behind + 1
        if kind in _SIZED:
            (size,) = _LONG.unpack_from(payload, at)
            at += 4 + int(size)
            if kind in _TEXTS:
                yield name, _decoded(payload[at - size : at])
        elif kind in _FIXED:
            form, written = _FIXED[kind]
            values = form.unpack_from(payload, at)
            at += form.size
            if (value := written(*values)) is not None:
                yield name, value
        else:
            return


def _seconds(given: int) -> float | None:
    """A timestamp in seconds, as AMQP defines it, or in milliseconds, as many send it."""
    if given <= 0xFFFFFFFF:  # noqa: PLR2004 - until the year 2106
        return float(given)
    return given / 1000 if given <= 0xFFFFFFFF * 1000 else None


def _moment(given: int) -> str | None:
    seconds = _seconds(given)
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _kinds(
    *those: tuple[str, str, Callable[..., str | None]],
) -> dict[int, tuple[struct.Struct, Callable[..., str | None]]]:
    return {ord(kind): (struct.Struct(f">{form}"), written) for kind, form, written in those}


_TEXTS = b"Sx"
_SIZED = b"SxAF"
_FIXED = _kinds(
    ("t", "B", lambda value: "true" if value else "false"),
    ("b", "b", str),
    ("B", "B", str),
    ("s", "h", str),
    ("u", "H", str),
    ("I", "i", str),
    ("i", "I", str),
    ("l", "q", str),
    ("L", "q", str),
    ("f", "f", str),
    ("d", "d", str),
    ("D", "Bi", lambda scale, value: str(value / 10**scale) if scale else str(value)),
    ("T", "Q", _moment),
    ("V", "0s", lambda _: None),
)
