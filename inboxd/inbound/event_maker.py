"""Makes events of a request or message by the settings of its source, or one dead letter.

A dead letter has the body and all readable keys, so that an erasure finds it. Known limits: the
reason is the first error that is found; a broken array has a tenant or an entity only if its items
do not name different ones. *See:* `sources.py`; `messages/compiled.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

import orjson

from inboxd.inbound import bodies, keys
from inboxd.inbound.bodies import BrokenBody
from inboxd.inbound.keys import Carrier, Fit
from inboxd.model import checks
from inboxd.model.receipt import ReceivedEvent
from inboxd.settings import MessageSource, WebhookSource

C = TypeVar("C", bound=Carrier)
# Like `keys.Read`, for one kind of carrier; None: the event has no such key.
ReadOf: TypeAlias = Callable[[C, object, str], str | None]

_DECODE = {"json": bodies.from_json, "form": bodies.from_form, "text": bodies.from_text}
_REASON_LENGTH = 500


class EventMaker(Generic[C]):
    def __init__(
        self,
        name: str,
        settings: WebhookSource | MessageSource,
        defaults: Mapping[str, ReadOf[C]],
        read_type: Callable[[C, object, str], str] | None = None,
    ) -> None:
        """defaults, read_type: used for unset settings. Raises UsageError."""
        self.name = name
        self.headers = settings.headers
        self.decode: Callable[[bytes], tuple[str, object]] = _DECODE[settings.body]
        self._topics: tuple[str | None, ...] = settings.topics or (None,)
        self._more_topics = self._topics[1:]
        self._is_json = settings.body == "json"
        self._entity_type = settings.entity_type
        self._read_entity_type = defaults.get("entity_type")
        read = partial(_read, settings, defaults)
        self._type = read_type or _read_type(settings)
        self._dedup = read("dedup_key", keys.dedup_key)
        self._ordering = read("ordering_key", keys.ordering_key)
        self._tenant = read("tenant", keys.short)
        self._entity_id = read("entity_id", keys.short)

    def events(
        self,
        came: C,
        event_id: UUID,
        payload: str,
        document: object,
        headers: str | None,
        traceparent: str | None,
    ) -> list[ReceivedEvent]:
        """One event per topic. Raises BrokenBody."""
        ordering, dedup = self._ordering, self._dedup
        tenant, entity = self._tenant, self._entity_id
        entity_type = self._read_entity_type
        event = ReceivedEvent(
            event_id,
            self._type(came, document, payload),
            payload,
            self._topics[0],
            ordering and ordering(came, document, payload),
            dedup and dedup(came, document, payload),
            tenant and tenant(came, document, payload),
            entity_type(came, document, payload) if entity_type else self._entity_type,
            entity and entity(came, document, payload),
            headers,
            traceparent,
        )
        if self._more_topics:
            return [event, *(replace(event, topic=topic) for topic in self._more_topics)]
        return [event]

    def broken(
        self,
        came: C,
        event_id: UUID,
        payload: str | None,
        reason: str,
        traceparent: str | None,
        items: Sequence[str] = (),
    ) -> list[ReceivedEvent]:
        """payload: None: the body. items: of an array; tenant and entity if they agree."""
        document, text = None, ""
        if payload is not None:
            document, text = orjson.loads(payload), payload
        elif self._is_json:
            document, text = bodies.as_far_as_read(came.body)
        read = partial(_try, came=came, document=document, text=text)
        parts = [(orjson.loads(item), item) for item in items] or [(document, text)]
        whose = partial(_agreed, came=came, parts=parts)
        event = partial(
            ReceivedEvent,
            event_id,
            read(self._type) or broken_type(self.name),
            bodies.as_it_is(came.body) if payload is None else payload,
            ordering_key=read(self._ordering),
            dedup_key=read(self._dedup),
            tenant=whose(self._tenant),
            entity_type=read(self._read_entity_type) or self._entity_type,
            entity_id=whose(self._entity_id),
            traceparent=traceparent,
            broken=reason[:_REASON_LENGTH],
        )
        return [event(topic=topic) for topic in self._topics]


def broken_instead(
    source: str, body: bytes, events: Sequence[ReceivedEvent], reason: str
) -> list[ReceivedEvent]:
    """A dead letter for each topic; it has the tenant and entity that all refused events share."""
    broken = partial(
        ReceivedEvent,
        events[0].event_id,
        broken_type(source),
        bodies.as_it_is(body),
        tenant=_common(event.tenant for event in events),
        entity_type=_common(event.entity_type for event in events),
        entity_id=_common(event.entity_id for event in events),
        broken=reason[:_REASON_LENGTH],
    )
    return [broken(topic=topic) for topic in dict.fromkeys(event.topic for event in events)]


def broken_type(source: str) -> str:
    return f"{source}.broken"


def event_headers(found: Mapping[str, str]) -> str | None:
    """An event's headers as JSON text. Raises BrokenBody."""
    text = headers_text(found)
    if text is not None and (problem := checks.headers(text)):
        raise BrokenBody(f"headers {problem}")
    return text


def headers_text(found: Mapping[str, str]) -> str | None:
    """Headers as JSON text, without NUL: PostgreSQL cannot store it."""
    if not found:
        return None
    text = orjson.dumps(found).decode()
    if "\\u0000" in text:
        return orjson.dumps({name: storable(value) for name, value in found.items()}).decode()
    return text


def storable(text: str | None) -> str | None:
    return text.replace("\0", "") if text and "\0" in text else text


def _read(
    settings: WebhookSource | MessageSource,
    defaults: Mapping[str, ReadOf[C]],
    setting: str,
    fit: Fit,
) -> ReadOf[C] | None:
    value: str | None = getattr(settings, setting)
    if value is None:
        return defaults.get(setting)
    return keys.compile_read(setting, value, fit) if value else None


def _read_type(settings: WebhookSource | MessageSource) -> keys.Read:
    if settings.type is not None:
        return keys.compile_read("type", f"text:{settings.type}", keys.short)
    return keys.compile_read(
        "type_from", settings.type_from or "", keys.short, settings.type_prefix
    )


def _try(read: ReadOf[C] | None, *, came: C, document: object, text: str) -> str | None:
    if read is None:
        return None
    try:
        found = read(came, document, text)
    except BrokenBody:
        return None
    # The body of a broken event was not checked before.
    return found if checks.text(found) is None else None


def _agreed(read: ReadOf[C] | None, *, came: C, parts: Sequence[tuple[object, str]]) -> str | None:
    """The value that all parts with a value share; None: they differ, or no part has a value."""
    told = (_try(read, came=came, document=document, text=text) for document, text in parts)
    return _common(each for each in told if each is not None)


def _common(values: Iterable[str | None]) -> str | None:
    found = {*values}
    return found.pop() if len(found) == 1 else None
