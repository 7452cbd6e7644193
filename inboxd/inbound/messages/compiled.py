"""Turns a message into the row to store, by the settings of its source.

Promises: a redelivered message becomes an event with the same id, which is the CloudEvent's id if
that is a uuid; a message of which no event can be made becomes one broken event with the reason.
Known limit: a message without a position and without any id is a new event at each delivery. *See:*
`storing.py`.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from inboxd.brokers import cloud_events
from inboxd.brokers.cloud_events import CloudEvent
from inboxd.brokers.contract import IncomingMessage
from inboxd.inbound import event_maker, keys
from inboxd.inbound.bodies import BrokenBody
from inboxd.inbound.event_maker import EventMaker, ReadOf
from inboxd.inbound.keys import Headers
from inboxd.inbound.uuids import Uuids
from inboxd.model import checks
from inboxd.model.message import ReceivedMessage
from inboxd.model.receipt import ReceivedEvent
from inboxd.settings import MessageSource

# For NATS and HTTP, for Kafka, for AMQP 1.0, and for AMQP where a colon is not allowed.
_PREFIXES = (cloud_events.NATS_PREFIX, "ce_", "cloudEvents:", "cloudEvents_")
_STRUCTURED = "application/cloudevents"
# Extensions that have columns of their own.
_WITH_COLUMNS = frozenset(
    {
        *("correlationid", "causationid", "partitionkey", "traceparent", "schemaversion"),
        *("tenant", "entitytype", "entityid"),
    }
)
# Namespace of ids that are derived from a message's position or id.
_NAMESPACE = UUID("6f0c1c1e-5d5b-5a0e-9a55-0c8f2d8f2b4e")
_UUID_LENGTH = 36
_VERSION_DIGITS = 5


class ArrivedMessage(NamedTuple):
    """A message, and its CloudEvent if any. body: the event's body, also in structured mode."""

    message: IncomingMessage
    body: bytes
    event: CloudEvent | None

    @property
    def headers(self) -> Headers:
        return self.message.headers

    @property
    def sha256(self) -> str:
        """The hash of the whole body, also of a body that was too large and left out."""
        left_out = self.message.left_out
        return hashlib.sha256(self.body).hexdigest() if left_out is None else left_out.sha256


class CompiledMessageSource:
    def __init__(self, name: str, kind: str, settings: MessageSource) -> None:
        """kind: the broker's. Raises UsageError for settings that cannot be compiled."""
        self.name = name
        self.settings = settings
        # Whether the broker divides the streams among its readers; else one worker reads all
        # streams.
        self.grouped = kind == "kafka"
        self._uuids = Uuids()
        self._max_body = settings.max_body
        self._no_data = b"null" if settings.body == "json" else b""
        is_typed = settings.type is not None or settings.type_from is not None
        defaults: dict[str, ReadOf[ArrivedMessage]] = {
            "dedup_key": _dedup_key,
            "ordering_key": _subject if kind == "nats" else _partition,
            "tenant": _extension("tenant"),
        }
        self._names_entities = settings.entity_type is not None or settings.entity_id is not None
        if not self._names_entities:
            defaults |= {
                "entity_id": _extension("entityid"),
                "entity_type": _extension("entitytype"),
            }
        self._maker = EventMaker(
            name, settings, defaults, None if is_typed else _read_type(settings.type_prefix)
        )
        self._headers = settings.headers

    def received(self, message: IncomingMessage) -> ReceivedMessage:
        arrived = self._arrived(message)
        event = arrived.event
        extensions = {} if event is None else event.extensions
        own_id = None if event is None else _uuid(event.id)
        events = self._events(arrived, own_id or self._derived_id(arrived))
        return ReceivedMessage(
            message.stream,
            message.position,
            message.identity,
            message.body,
            events,
            _correlation(extensions.get("correlationid")),
            _uuid(extensions.get("causationid")),
            _occurred_at(arrived),
            _version(extensions.get("schemaversion")),
            None if own_id is None else self._other_id(arrived, events),
        )

    def _arrived(self, message: IncomingMessage) -> ArrivedMessage:
        body, content_type = message.body, message.content_type
        if content_type is not None and content_type.lower().startswith(_STRUCTURED):
            found = cloud_events.read_structured(body, content_type)
            if found is not None:
                return ArrivedMessage(message, found[1], found[0])
        event = cloud_events.read(message.headers, _PREFIXES) if message.headers else None
        # A CloudEvent may have no data; without a CloudEvent an empty body is stored unchanged.
        return ArrivedMessage(
            message, self._no_data if event is not None and not body else body, event
        )

    def _events(self, arrived: ArrivedMessage, id_: UUID) -> list[ReceivedEvent]:
        maker, payload, trace = self._maker, None, _traceparent(arrived)
        if (left_out := arrived.message.left_out) is not None:
            why = (
                f"the body has {left_out.size} bytes, more than max_body ({self._max_body}): it is "
                "not kept"
            )
            return maker.broken(arrived, id_, "null", why, trace)
        try:
            payload, document = maker.decode(arrived.body)
            headers = self._headers_of(arrived)
            return maker.events(arrived, id_, payload, document, headers, trace)
        except BrokenBody as problem:
            return maker.broken(arrived, id_, payload, str(problem), trace)

    def _derived_id(self, arrived: ArrivedMessage) -> UUID:
        """An id made from the message's position or id; the same at each delivery."""
        message = arrived.message
        if message.position is not None:
            identity = message.identity.partition(" ")[0]  # the other part belongs to the message
            place = f"{message.stream}\0{identity}\0{message.position}"
            return uuid5(_NAMESPACE, f"{self.name}\0{place}")
        id_ = _id_of(arrived)
        if id_ is None:
            return self._uuids.make(time.time_ns())
        return uuid5(_NAMESPACE, f"{self.name}\0{message.stream}\0\0{id_}")

    def _other_id(self, arrived: ArrivedMessage, events: Sequence[ReceivedEvent]) -> UUID | None:
        """The id to use if an unsettled event has the CloudEvent's id; None: it is a repetition."""
        if arrived.message.position is not None:
            return self._derived_id(arrived)
        return self._uuids.make(time.time_ns()) if events[0].dedup_key is not None else None

    def _headers_of(self, arrived: ArrivedMessage) -> str | None:
        came, event = arrived.message.headers, arrived.event
        found = {name: came[name] for name in self._headers if name in came}
        if event is not None:
            found |= _attributes(event)
        return event_maker.event_headers(found)


def _attributes(event: CloudEvent) -> dict[str, str]:
    found = {"ce-id": event.id, "ce-source": event.source, "ce-type": event.type}
    if event.subject is not None:
        found["ce-subject"] = event.subject
    if event.dataschema is not None:
        found["ce-dataschema"] = event.dataschema
    for name, value in event.extensions.items():
        if name not in _WITH_COLUMNS:
            found[f"ce-{name}"] = value
    return found


def _read_type(prefix: str) -> Callable[[ArrivedMessage, object, str], str]:
    def read(arrived: ArrivedMessage, _document: object, _text: str) -> str:
        if arrived.event is None:
            raise BrokenBody(
                "the message is not a CloudEvent, and the settings have neither type nor type_from"
            )
        try:
            return keys.short(prefix + arrived.event.type)
        except BrokenBody as problem:
            raise BrokenBody(f"type {problem}") from None

    return read


def _extension(name: str) -> ReadOf[ArrivedMessage]:
    def read(arrived: ArrivedMessage, _document: object, _text: str) -> str | None:
        found = None if arrived.event is None else arrived.event.extensions.get(name)
        if found is not None and (problem := checks.short(found)):
            raise BrokenBody(f"the extension {name} {problem}")
        return found

    return read


def _partition(arrived: ArrivedMessage, _document: object, _text: str) -> str:
    """The unit in which the broker keeps order: the key, or else the partition or queue."""
    return _ordering_key(arrived, arrived.message.stream)


def _subject(arrived: ArrivedMessage, _document: object, _text: str) -> str:
    return _ordering_key(arrived, arrived.message.sent_to)


def _ordering_key(arrived: ArrivedMessage, other: str) -> str:
    key = arrived.message.key
    if key is None and arrived.event is not None:
        key = arrived.event.extensions.get("partitionkey")
    return _fitted(other if key is None else key, keys.ordering_key)


def _dedup_key(arrived: ArrivedMessage, _document: object, _text: str) -> str | None:
    """The message's id; None if the broker has positions, which identify it already."""
    if arrived.message.position is not None:
        return None
    id_ = _id_of(arrived)
    return None if id_ is None else _fitted(id_, keys.dedup_key)


def _id_of(arrived: ArrivedMessage) -> str | None:
    message, event = arrived.message, arrived.event
    if message.id:
        return message.id
    if event is None:
        return None
    # An id that is not a uuid is unique only for its source.
    return event.id if _uuid(event.id) is not None else f"{event.source} {event.id}"


def _fitted(text: str, fit: keys.Fit) -> str:
    """A key that fits its column: a key with NUL is hashed, like a key that is too long."""
    return fit(text) if "\0" not in text else hashlib.sha256(text.encode()).hexdigest()


def _version(text: str | None) -> int:
    """The version of the payload's schema; 1 if it is missing or invalid."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _VERSION_DIGITS:
        return 1
    return int(text) if checks.count(int(text)) is None else 1


def _correlation(text: str | None) -> str | None:
    return None if text is None else keys.dedup_key(text)


def _uuid(text: str | None) -> UUID | None:
    if text is None or len(text) != _UUID_LENGTH:
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


def _traceparent(arrived: ArrivedMessage) -> str | None:
    found = keys.traceparent(arrived.message.headers)
    if found is None and arrived.event is not None:
        found = keys.traceparent(arrived.event.extensions)
    return found


def _occurred_at(arrived: ArrivedMessage) -> datetime | None:
    """When the event happened, else when it was sent; None if a column cannot hold that time."""
    event, sent_at = arrived.event, arrived.message.sent_at
    found = None if event is None else event.time
    if found is None and sent_at is not None:
        try:
            found = datetime.fromtimestamp(sent_at, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    return found if found is not None and checks.time(found) is None else None
