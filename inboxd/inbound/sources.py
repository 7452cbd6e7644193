"""A webhook source's settings, compiled: from an authentic request to the receipt that is stored.

Owns how events are made of a body. Promises: what is authentic is never refused for what it holds;
what no event can be made of (it is not JSON, or lacks a key) is one broken event with the reason,
which becomes a dead letter. Of an array all items are events, or none is: one broken item breaks
the whole. Known limit: a key from a header is the same for all items of an array, so the item's
number is put behind it.
*See:* `application.py`, which asks; `inboxd/store/receipts.py`, which writes.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import orjson

from inboxd.inbound import bodies, keys
from inboxd.inbound.addresses import Networks
from inboxd.inbound.backpressure import TokenBucket, allowance
from inboxd.inbound.bodies import BrokenBody
from inboxd.inbound.items import elements
from inboxd.inbound.keys import AuthenticRequest, Headers, Read
from inboxd.inbound.pointer import steps
from inboxd.inbound.uuids import Uuids
from inboxd.model import checks
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.settings import WebhookSource
from inboxd.signatures import Verifier

_DECODE = {"json": bodies.from_json, "form": bodies.from_form, "text": bodies.from_text}
_REASON_LENGTH = 500


class CompiledSource:
    """One source: how its requests are judged, and what becomes of them."""

    def __init__(self, name: str, settings: WebhookSource, verifier: Verifier) -> None:
        """Raises UsageError for what cannot be compiled."""
        self.name = name
        self.settings = settings
        self.verifier = verifier
        self.max_body = settings.max_body
        self.answer = settings.answer
        self.addresses = Networks(settings.addresses)
        self.bucket: TokenBucket | None = None
        if settings.rate is not None:
            self.bucket = TokenBucket(allowance(settings.rate, settings.burst))
        self.refuses = settings.paused == "refuse"
        # Whether there is anything to ask of it before the body.
        # Beside `refuses`, which whoever looks at the database changes at any time.
        self.is_guarded = bool(self.addresses) or self.bucket is not None
        self._holds = settings.paused == "hold"
        self._topics: tuple[str | None, ...] = settings.topics or (None,)
        self._more_topics = self._topics[1:]
        self._decode: Callable[[bytes], tuple[str, object]] = _DECODE[settings.body]
        self._items = None if settings.items is None else steps(settings.items)
        self._entity_type = settings.entity_type
        self._type = _read_type(settings)
        dedup = settings.dedup_key
        if dedup is None:
            dedup = verifier.default_dedup_key or ""
        self._dedup = _read("dedup_key", dedup, keys.dedup_key)
        # A pointer finds another value in each item; a header or a hash of the body does not.
        self._numbers_items = self._items is not None and not dedup.startswith("pointer:")
        self._ordering = _read("ordering_key", settings.ordering_key, keys.ordering_key)
        self._tenant = _read("tenant", settings.tenant, keys.short)
        self._entity_id = _read("entity_id", settings.entity_id, keys.short)
        chosen = tuple(each.lower() for each in settings.headers)
        self._chosen = chosen
        signed = sorted(verifier.signed_headers - verifier.secret_headers)
        self._kept = tuple(dict.fromkeys((*signed, *chosen)))

    def keep_bucket_of(self, before: "CompiledSource | None") -> None:
        """Go on with its tokens, if it has the same rate."""
        bucket = None if before is None else before.bucket
        if self.bucket is not None and bucket is not None:
            self.bucket = bucket if bucket.allowance == self.bucket.allowance else self.bucket

    def receipt(self, uuids: Uuids, request: AuthenticRequest) -> Receipt:
        """What is stored of a request, with its events."""
        headers, at = request.headers, request.at
        receipt_id = uuids.make(at)
        return Receipt(
            receipt_id,
            datetime.fromtimestamp(at / 1e9, UTC),
            self.name,
            request.body,
            _storable(headers.get("content-type")),
            _json_of(headers, self._kept),
            request.address,
            request.key_id,
            self._events(uuids, request),
            self._holds,
        )

    def _events(self, uuids: Uuids, request: AuthenticRequest) -> list[ReceivedEvent]:
        payload = None
        try:
            payload, document = self._decode(request.body)
            headers = _event_headers(request.headers, self._chosen) if self._chosen else None
            if self._items is None:
                return self._event(uuids, request, payload, document, headers)
            return self._event_each(uuids, request, payload, headers)
        except BrokenBody as problem:
            return self._broken(uuids, request, payload, str(problem))

    def _event_each(
        self, uuids: Uuids, request: AuthenticRequest, payload: str, headers: str | None
    ) -> list[ReceivedEvent]:
        """An event for each element of the array."""
        assert self._items is not None  # noqa: S101 - asked by who calls
        found: list[ReceivedEvent] = []
        for number, text in enumerate(elements(payload, self._items)):
            try:
                events = self._event(uuids, request, text, orjson.loads(text), headers)
            except BrokenBody as problem:
                raise BrokenBody(f"item {number}: {problem}") from None
            if self._numbers_items:
                for event in events:
                    if event.dedup_key is not None:
                        event.dedup_key = keys.dedup_key(f"{event.dedup_key}:{number}")
            found += events
        return found

    def _event(
        self,
        uuids: Uuids,
        request: AuthenticRequest,
        payload: str,
        document: object,
        headers: str | None,
    ) -> list[ReceivedEvent]:
        """One event, once for each topic. Raises BrokenBody."""
        ordering, dedup = self._ordering, self._dedup
        tenant, entity = self._tenant, self._entity_id
        event = ReceivedEvent(
            uuids.make(request.at),
            self._type(request, document, payload),
            payload,
            self._topics[0],
            ordering and ordering(request, document, payload),
            dedup and dedup(request, document, payload),
            tenant and tenant(request, document, payload),
            self._entity_type,
            entity and entity(request, document, payload),
            headers,
            request.traceparent,
        )
        if self._more_topics:
            return [event, *(replace(event, topic=topic) for topic in self._more_topics)]
        return [event]

    def _broken(
        self, uuids: Uuids, request: AuthenticRequest, payload: str | None, reason: str
    ) -> list[ReceivedEvent]:
        """One event that is a dead letter at once; with its keys, as far as they can be read."""
        body = request.body
        document = None if payload is None else orjson.loads(payload)
        read = partial(_try, request=request, document=document, text=payload or "")
        event = partial(
            ReceivedEvent,
            uuids.make(request.at),
            read(self._type) or f"{self.name}.broken",
            bodies.as_it_is(body) if payload is None else payload,
            ordering_key=read(self._ordering),
            dedup_key=read(self._dedup),
            entity_type=self._entity_type,
            traceparent=request.traceparent,
            broken=reason[:_REASON_LENGTH],
        )
        return [event(topic=topic) for topic in self._topics]


def _read(setting: str, value: str | None, fit: Callable[[str], str]) -> Read | None:
    return keys.compile_read(setting, value, fit) if value else None


def _read_type(settings: WebhookSource) -> Read:
    if settings.type is not None:
        return keys.compile_read("type", f"text:{settings.type}", keys.short)
    return keys.compile_read(
        "type_from", settings.type_from or "", keys.short, settings.type_prefix
    )


def _try(
    read: Read | None, *, request: AuthenticRequest, document: object, text: str
) -> str | None:
    if read is None:
        return None
    try:
        return read(request, document, text)
    except BrokenBody:
        return None


def _storable(text: str | None) -> str | None:
    """A header as a column can have it: without NUL, which no server lets in."""
    return text.replace("\0", "") if text and "\0" in text else text


def _event_headers(headers: Headers, names: tuple[str, ...]) -> str | None:
    text = _json_of(headers, names)
    if text is not None and (problem := checks.headers(text)):
        raise BrokenBody(f"headers {problem}")
    return text


def _json_of(headers: Headers, names: tuple[str, ...]) -> str | None:
    """Those that came, as JSON text, without NUL."""
    found: dict[str, str | None] = {name: headers[name] for name in names if name in headers}
    if not found:
        return None
    text = orjson.dumps(found).decode()
    if "\\u0000" in text:
        found = {name: _storable(value) for name, value in found.items()}
        return orjson.dumps(found).decode()
    return text


def broken_instead(receipt: Receipt, reason: str) -> Receipt | None:
    """The receipt with dead letters for its events: the database refuses them as they are.

    None: it has no events.
    """
    if not receipt.events:
        return None
    first = receipt.events[0]
    broken = partial(
        ReceivedEvent,
        first.event_id,
        f"{receipt.source}.broken",
        bodies.as_it_is(receipt.body),
        broken=reason[:_REASON_LENGTH],
    )
    topics = dict.fromkeys(event.topic for event in receipt.events)
    return replace(receipt, events=[broken(topic=topic) for topic in topics])


Sources = Mapping[str, CompiledSource]
