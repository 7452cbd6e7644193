"""Receipts as the content of frames: the length of a JSON document, the document, the raw body."""

from datetime import UTC, datetime, timedelta
from struct import Struct
from struct import error as StructError  # noqa: N812 - a common name
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from inboxd.errors import UnreadableReceipt
from inboxd.model.receipt import Receipt, ReceivedEvent

_FORM = 1
_LENGTH = Struct("<I")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNREADABLE = (AttributeError, KeyError, OverflowError, StructError, TypeError, ValueError)


class Order(NamedTuple):
    """The order of a receipt on its host: the boot's number, and nanoseconds since the boot."""

    boot: int
    since: int


class SpooledReceipt(NamedTuple):
    order: Order
    receipt: Receipt


def encode(order: Order, receipt: Receipt) -> bytes:
    text = receipt.body
    document = orjson.dumps(
        {
            "form": _FORM,
            "order": tuple(order),
            "id": receipt.receipt_id,
            "at": (receipt.received_at - _EPOCH) // _MICROSECOND,
            "source": receipt.source,
            "content_type": receipt.content_type,
            "headers": receipt.headers,
            "address": receipt.address,
            "key": receipt.key_id,
            "hold": receipt.hold,
            "events": [_event(event, text) for event in receipt.events],
        }
    )
    return b"".join((_LENGTH.pack(len(document)), document, receipt.body))


def decode(content: bytes) -> SpooledReceipt:
    """The receipt of a frame. Raises UnreadableReceipt for any other content."""
    try:
        (length,) = _LENGTH.unpack_from(content)
        body = content[_LENGTH.size + length :]
        return _decoded(orjson.loads(content[_LENGTH.size : _LENGTH.size + length]), body)
    except _UNREADABLE as error:
        raise UnreadableReceipt("a frame holds no receipt that this version can read") from error


def _event(event: ReceivedEvent, body: bytes) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in _FIELDS}
    given = {name: value for name, value in fields.items() if value is not None}
    given["event_id"] = event.event_id
    if event.payload.encode(errors="surrogatepass") != body:
        given["payload"] = event.payload
    return given


def _decoded(document: dict[str, Any], body: bytes) -> SpooledReceipt:
    if document["form"] != _FORM:
        raise ValueError(document["form"])
    events = [
        ReceivedEvent(
            event_id=UUID(each.pop("event_id")),
            payload=each.pop("payload") if "payload" in each else body.decode(),
            **each,
        )
        for each in document["events"]
    ]
    receipt = Receipt(
        receipt_id=UUID(document["id"]),
        received_at=_EPOCH + document["at"] * _MICROSECOND,
        source=document["source"],
        body=body,
        content_type=document["content_type"],
        headers=document["headers"],
        address=document["address"],
        key_id=document["key"],
        events=events,
        hold=document["hold"],
    )
    return SpooledReceipt(Order(*document["order"]), receipt)


_FIELDS = (
    *("type", "topic", "ordering_key", "dedup_key", "tenant", "entity_type", "entity_id"),
    *("headers", "traceparent", "broken"),
)
