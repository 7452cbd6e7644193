"""Turns an authentic request into the receipt to store, by the settings of its source.

An authentic request is never refused for its content: if no event can be made of it, or one item of
an array is broken, it becomes one dead letter with the reason. Known limit: a key from a header is
the same for all items of an array, so the item's number is appended to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from inboxd.inbound import event_maker, keys
from inboxd.inbound.backpressure import TokenBucket, allowance
from inboxd.inbound.bodies import BrokenBody
from inboxd.inbound.event_maker import EventMaker
from inboxd.inbound.items import elements
from inboxd.inbound.keys import AuthenticRequest, Headers
from inboxd.inbound.pointer import steps
from inboxd.inbound.uuids import Uuids
from inboxd.model.addresses import Networks
from inboxd.model.receipt import Receipt, ReceivedEvent
from inboxd.settings import WebhookSource
from inboxd.signatures import Verifier


class CompiledSource:
    def __init__(self, name: str, settings: WebhookSource, verifier: Verifier) -> None:
        """Raises UsageError for settings that cannot be compiled."""
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
        # Whether addresses are checked before the body. `refuses` is separate, since it changes
        # with the controls in the database.
        self.is_guarded = bool(self.addresses)
        self._holds = settings.paused == "hold"
        self._items = None if settings.items is None else steps(settings.items)
        dedup = settings.dedup_key
        defaults: dict[str, keys.Read] = {}
        if dedup is None and (dedup := verifier.default_dedup_key):
            defaults["dedup_key"] = keys.compile_read("dedup_key", dedup, keys.dedup_key)
        # Whether item numbers are appended: a pointer finds another value in each item; a header or
        # a hash of the body has one value for all.
        self._numbers_items = self._items is not None and not (dedup or "").startswith("pointer:")
        self._scoped_by_key = settings.dedup_scope == "key"
        self._tenants = {key.id: key.tenant for key in settings.keys if key.tenant is not None}
        self._maker = EventMaker[AuthenticRequest](name, settings, defaults)
        signed = sorted(verifier.signed_headers - verifier.secret_headers)
        self._kept = tuple(dict.fromkeys((*signed, *settings.headers)))

    def keep_bucket_of(self, before: "CompiledSource | None") -> None:
        """Take over the tokens of the previous source, if its rate is the same."""
        bucket = None if before is None else before.bucket
        if self.bucket is not None and bucket is not None:
            self.bucket = bucket if bucket.allowance == self.bucket.allowance else self.bucket

    def receipt(self, uuids: Uuids, request: AuthenticRequest) -> Receipt:
        headers, at = request.headers, request.at
        receipt_id = uuids.make(at)
        return Receipt(
            receipt_id,
            datetime.fromtimestamp(at / 1e9, UTC),
            self.name,
            request.body,
            event_maker.storable(headers.get("content-type")),
            event_maker.headers_text(_chosen(headers, self._kept)),
            request.address,
            request.key_id,
            self._of_its_sender(request.key_id, self._events(uuids, request)),
            self._holds,
        )

    def _of_its_sender(
        self, key_id: str | None, events: list[ReceivedEvent]
    ) -> list[ReceivedEvent]:
        """Set tenant and dedup scope by the key, so that a body cannot claim another sender's."""
        tenant = self._tenants.get(key_id or "")
        for event in events if tenant is not None or self._scoped_by_key else ():
            event.tenant = tenant or event.tenant
            if self._scoped_by_key and event.dedup_key is not None:
                event.dedup_key = keys.dedup_key(f"{key_id}:{event.dedup_key}")
        return events

    def _events(self, uuids: Uuids, request: AuthenticRequest) -> list[ReceivedEvent]:
        maker, payload = self._maker, None
        items: list[str] = []
        try:
            payload, document = maker.decode(request.body)
            chosen = _chosen(request.headers, maker.headers) if maker.headers else {}
            headers = event_maker.event_headers(chosen)
            if self._items is None:
                id_ = uuids.make(request.at)
                return maker.events(request, id_, payload, document, headers, request.traceparent)
            items = elements(payload, self._items, self.settings.max_items)
            return self._event_each(uuids, request, items, headers)
        except BrokenBody as problem:
            id_ = uuids.make(request.at)
            why = str(problem)
            return maker.broken(request, id_, payload, why, request.traceparent, items)

    def _event_each(
        self, uuids: Uuids, request: AuthenticRequest, items: Sequence[str], headers: str | None
    ) -> list[ReceivedEvent]:
        found: list[ReceivedEvent] = []
        for number, text in enumerate(items):
            given = (text, orjson.loads(text), headers, request.traceparent)
            try:
                events = self._maker.events(request, uuids.make(request.at), *given)
            except BrokenBody as problem:
                raise BrokenBody(f"item {number}: {problem}") from None
            if self._numbers_items:
                for event in events:
                    if event.dedup_key is not None:
                        event.dedup_key = keys.dedup_key(f"{event.dedup_key}:{number}")
            found += events
        return found


def _chosen(headers: Headers, names: tuple[str, ...]) -> dict[str, str]:
    return {name: headers[name] for name in names if name in headers}


def broken_instead(receipt: Receipt, reason: str) -> Receipt | None:
    """Dead letters in place of events that the database refuses; None: without events."""
    if not receipt.events:
        return None
    given = (receipt.source, receipt.body, receipt.events, reason)
    return replace(receipt, events=event_maker.broken_instead(*given))


Sources = Mapping[str, CompiledSource]
