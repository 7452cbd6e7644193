"""CloudEvents 1.0: written as headers beside a body (binary mode), read in both modes.

NATS percent-encodes values, Kafka and AMQP do not. Input that breaks the specification is not a
CloudEvent, and causes no error; an invalid `time` is left out. Known limit: batches are not read.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

import orjson

from inboxd.brokers.contract import OutgoingMessage
from inboxd.errors import MessageRefused

NATS_PREFIX = "ce-"
_PERCENT_ENCODED = (NATS_PREFIX,)  # the prefixes whose binding demands it
_VERSION = "1.0"
_STRUCTURED = ("application/cloudevents+json", "application/cloudevents")
_JSON = "application/json"
_REQUIRED = ("id", "source", "type")
_OWN = frozenset((*_REQUIRED, "specversion", "subject", "time", "dataschema", "datacontenttype"))
_EXTENSION = re.compile(r"[a-z0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # surrogates: UTF-8 cannot encode them
_PLAIN = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # letters, digits and these are not encoded
_TO_ENCODE = re.compile(r"[^\x21\x23\x24\x26-\x7e]")
_ESCAPED = re.compile(r"\\(.)")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """A CloudEvent's attributes; extensions: partitionkey, traceparent and others, by name."""

    id: str
    source: str
    type: str
    subject: str | None = None
    time: datetime | None = None
    dataschema: str | None = None
    datacontenttype: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)


def attributes(event: CloudEvent) -> dict[str, str]:
    found = {
        "specversion": _VERSION,
        "id": event.id,
        "source": event.source,
        "type": event.type,
    }
    if event.subject:
        found["subject"] = event.subject
    if event.time is not None:
        found["time"] = event.time.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if event.dataschema:
        found["dataschema"] = event.dataschema
    found.update(event.extensions)
    return found


def headers(message: OutgoingMessage, prefix: str) -> dict[str, str]:
    """Leaves out own headers that begin with the prefix. Raises MessageRefused."""
    found = own_headers(message, prefix)
    for name, value in attribute_values(message, prefix).items():
        found[prefix + name] = value
    return found


def own_headers(message: OutgoingMessage, prefix: str) -> dict[str, str]:
    """The first half of `headers`: the message's own headers. Raises MessageRefused."""
    if not message.headers:
        return {}
    _check(message.headers)
    taken = prefix.lower()
    return {
        name: value for name, value in message.headers.items() if not name.lower().startswith(taken)
    }


def attribute_values(message: OutgoingMessage, prefix: str) -> Mapping[str, str]:
    """Names without the prefix, values encoded for it. Raises MessageRefused."""
    written: Mapping[str, str] = message.attributes
    _check(written)
    if prefix in _PERCENT_ENCODED and _TO_ENCODE.search("".join(written.values())):
        return {name: quote(value, safe=_PLAIN) for name, value in written.items()}
    return written


def read(headers: Mapping[str, str], prefixes: Sequence[str]) -> CloudEvent | None:
    """headers: names in lower case. Of several prefixes, the first with an event counts."""
    for prefix in prefixes:
        lower = prefix.lower()
        if headers.get(f"{lower}specversion") == _VERSION:
            size = len(lower)
            found = {name[size:]: v for name, v in headers.items() if name.startswith(lower)}
            if lower in _PERCENT_ENCODED:
                try:
                    found = {name: _decoded(value) for name, value in found.items()}
                except UnicodeDecodeError:
                    return None
            return _event(found, headers.get("content-type"))
    return None


def read_structured(body: bytes, content_type: str | None) -> tuple[CloudEvent, bytes] | None:
    """The event, and the body that binary mode would have; None: it is not a CloudEvent."""
    if _media_type(content_type) not in _STRUCTURED:
        return None
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or document.get("specversion") != _VERSION:
        return None
    texts = {name: _text(value) for name, value in document.items() if _has_text(name, value)}
    event = _event(texts, _JSON)
    if event is None:
        return None
    try:
        return event, _data(body, document, event)
    except (ValueError, RecursionError):
        return None


def _check(those: Mapping[str, str]) -> None:
    if "".join(those).isprintable() and "".join(those.values()).isprintable():
        return  # fast, and the usual case
    for name, value in those.items():
        if _CONTROL.search(name) or _CONTROL.search(value):
            raise MessageRefused(
                f"header {name!r} has a control character in its name or value: emit the event "
                "without it.",
                for_good=True,
            )


def _event(found: Mapping[str, str], content_type: str | None) -> CloudEvent | None:
    if not all(found.get(name) for name in _REQUIRED) or _any_control(found.values()):
        return None
    return CloudEvent(
        id=found["id"],
        source=found["source"],
        type=found["type"],
        subject=found.get("subject") or None,
        time=_time(found.get("time")),
        dataschema=found.get("dataschema") or None,
        datacontenttype=found.get("datacontenttype") or content_type,
        extensions={
            name: value
            for name, value in found.items()
            if name not in _OWN and _EXTENSION.fullmatch(name)
        },
    )


def _any_control(values: Iterable[str]) -> bool:
    joined = "".join(values)
    return not joined.isprintable() and _CONTROL.search(joined) is not None


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _decoded(value: str) -> str:
    """Decode a percent-encoded value; older senders quoted values instead."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _ESCAPED.sub(r"\1", value[1:-1])
    return unquote(value, errors="strict") if "%" in value else value


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _has_text(name: str, value: object) -> bool:
    """Whether a member of a JSON document is an attribute: null means absent (section 2.2)."""
    return name not in ("data", "data_base64") and isinstance(value, str | bool | int)


def _text(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _data(body: bytes, document: Mapping[str, Any], event: CloudEvent) -> bytes:
    if document.get("data_base64") is not None:
        encoded = document["data_base64"]
        if not isinstance(encoded, str):
            raise ValueError("data_base64 is not a string")
        return base64.b64decode(encoded, validate=True)
    data = document.get("data")
    if isinstance(data, str) and not _is_json(event.datacontenttype):
        return data.encode()
    return b"null" if data is None else _member(body.decode(), "data").encode()


def _is_json(content_type: str | None) -> bool:
    return _media_type(content_type).partition("/")[2].rpartition("+")[2] == "json"


def _member(document: str, name: str) -> str:
    """A member of a JSON object as its original text: numbers keep all their digits."""
    found = ""
    at = _after_blanks(document, 0)
    while document[at] != "}":  # "{" or "," before a member
        key, at = _DECODER.raw_decode(document, _after_blanks(document, at + 1))
        at = _after_blanks(document, _after_blanks(document, at) + 1)
        _, end = _DECODER.raw_decode(document, at)
        if key == name:
            found = document[at:end]  # the last of several equal names counts, as in orjson
        at = _after_blanks(document, end)
    return found


def _after_blanks(document: str, at: int) -> int:
    blank = _BLANK.match(document, at)
    return at if blank is None else blank.end()
