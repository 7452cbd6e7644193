"""Writes and reads the wire format of NATS messages.

Promises: no part of a message can end its line or its headers, and so reach the server as a
command; an event's content type and headers for the server (`Nats-…`) are left out; `Nats-Msg-Id`
names the event and the subject, since a stream drops a known id under any subject.
"""

import re
from typing import NamedTuple

from inboxd.brokers import cloud_events
from inboxd.brokers.contract import OutgoingMessage
from inboxd.errors import MessageRefused

_SUBJECT = re.compile(r"[^\x00-\x20\x7f.*>\ud800-\udfff]+(?:\.[^\x00-\x20\x7f.*>\ud800-\udfff]+)*")
_SERVERS_OWN = ("$", "_INBOX.")
_LONGEST_LINE = 4000  # bytes; above 4,096 the server closes the connection
_NAMES = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]*")
_OURS = ("nats-", "content-type")
_PLAIN_TOKENS = 9  # of an acknowledgement's subject, without a domain and an account


def publication(message: OutgoingMessage, reply: str, most: int) -> bytes:
    """reply: gets the answer. most: the server's limit in bytes. Raises MessageRefused."""
    subject, body = message.to, message.body
    if not _SUBJECT.fullmatch(subject) or subject.startswith(_SERVERS_OWN):
        raise _not_a_subject(subject)
    head = _head(message)
    size = len(head) + len(body)
    if size > most:
        raise MessageRefused(
            f"the message has {size} bytes with its headers, and the server takes {most}: make it "
            "smaller, or raise max_payload there.",
            for_good=True,
        )
    line = f"HPUB {subject} {reply} {len(head)} {size}\r\n".encode()
    if len(line) > _LONGEST_LINE:
        raise _not_a_subject(subject)
    return b"%b%b%b\r\n" % (line, head, body)


def _not_a_subject(name: str) -> MessageRefused:
    return MessageRefused(
        f"{name[:200]!r} is not a valid NATS subject: words between dots, without blanks, * and >, "
        f"of less than {_LONGEST_LINE} bytes, none of the server's own. Correct `to` of the relay.",
        for_good=True,
    )


def _head(message: OutgoingMessage) -> bytes:
    prefix = cloud_events.NATS_PREFIX
    own = cloud_events.own_headers(message, prefix)
    attributes = cloud_events.attribute_values(message, prefix)
    names = "".join([*own, *attributes])
    if not _NAMES.fullmatch(names) or "" in own or not message.content_type.isprintable():
        raise MessageRefused(
            "the name of a header, or the content type, is not valid in NATS: emit the event with "
            "letters, digits and hyphens only.",
            for_good=True,
        )
    lines = [
        "NATS/1.0\r\n",
        f"Nats-Msg-Id: {message.id}@{message.to}\r\n",
        f"content-type: {message.content_type}\r\n",
        *[f"{n}: {v}\r\n" for n, v in own.items() if not n.lower().startswith(_OURS)],
        *[f"{prefix}{name}: {value}\r\n" for name, value in attributes.items()],
        "\r\n",
    ]
    return "".join(lines).encode()


def headers_of(block: bytes | None) -> dict[str, str]:
    if not block:
        return {}
    try:
        lines = block.decode().split("\r\n")
    except UnicodeDecodeError:
        lines = [decoded(line) for line in block.split(b"\r\n")]
    found = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


def decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def is_meant(subject: str, pattern: str) -> bool:
    """Whether a pattern, which may have wildcards, matches a subject."""
    words, wanted = subject.split("."), pattern.split(".")
    for at, word in enumerate(wanted):
        if word == ">":
            return len(words) > at
        if at >= len(words) or word not in ("*", words[at]):
            return False
    return len(words) == len(wanted)


class ServerStatus(NamedTuple):
    """The server's status instead of a message; code 0: a message."""

    code: int
    words: str


def status_of(block: bytes | None) -> ServerStatus:
    if not block or not block.startswith(b"NATS/1.0 "):
        return ServerStatus(0, "")
    code, _, words = block[9:].partition(b"\r\n")[0].decode("latin-1").strip().partition(" ")
    return ServerStatus(int(code), words)


class Delivered(NamedTuple):
    position: int
    delivery: int
    """The delivery's number, counted per consumer."""
    nanoseconds: int
    """The time at which the message was stored."""


def delivered(reply: bytes) -> Delivered:
    """reply: the acknowledgement's subject. Raises ValueError."""
    tokens = reply.split(b".")
    at = 5 if len(tokens) == _PLAIN_TOKENS else 7
    return Delivered(int(tokens[at]), int(tokens[at + 1]), int(tokens[at + 2]))
