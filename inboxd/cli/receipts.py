"""Finds the receipt of a command's argument, and formats its body and headers."""

import base64
from typing import TYPE_CHECKING, Any
from uuid import UUID

from inboxd.errors import NotFound

if TYPE_CHECKING:
    from inboxd.store.receipts import ReceiptRow
    from inboxd.store.session import Session


async def receipt_of(session: "Session", id: int | UUID, *, raw: bool) -> "ReceiptRow":
    """Return the receipt of that id, or that of an event. Raises NotFound."""
    from inboxd.store import listing, receipts

    found = await receipts.one(session, id, raw=raw) if isinstance(id, UUID) else None
    if found is not None:
        return found
    event = await listing.one(session, "events", id, payload=False)
    if event is None:
        raise NotFound(
            f"there is no receipt and no event {id}: look the id up with `inboxd webhooks list`"
        )
    if event["origin_kind"] != "receipt":
        raise NotFound(
            f"event {id} did not come as a webhook: `inboxd events show {id}` shows its origin"
        )
    receipt_id = UUID(event["causation_id"])
    found = await receipts.one(session, receipt_id, raw=raw)
    if found is None:
        raise NotFound(f"the receipt {receipt_id} of event {id} is not kept any more")
    return found


async def events_of(session: "Session", ids: list[UUID]) -> list[dict[str, Any]]:
    """Return the existing events, each in its first topic."""
    from inboxd.store import listing

    keys = ("id", "event_id", "type", "topic", "status", "attempts")
    rows = [await listing.one(session, "events", each, payload=False) for each in ids]
    return [{key: row[key] for key in keys} for row in rows if row is not None]


def headers_of(row: "ReceiptRow") -> dict[str, str]:
    import orjson

    kept = row.get("headers")
    return orjson.loads(kept) if kept else {}


def body_of(row: "ReceiptRow") -> bytes:
    """Return the body as it came. Raises NotFound if it is not kept."""
    body = row.get("body")
    if body is None:
        why = "the receipt is a duplicate" if row["outcome"] == "duplicate" else "it was erased"
        raise NotFound(f"the body of the receipt {row['receipt_id']} is not kept: {why}")
    return bytes(body)


def readable(body: bytes | None) -> object:
    """Return a body as JSON, as text, or else in base64."""
    import orjson

    if body is None:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
