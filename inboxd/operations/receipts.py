"""Finds receipts by their ids or their events, and makes the requests that send them again.

Promises: the body is sent exactly as it came; it is signed anew if a key of its source can sign,
since a receiver refuses an old signature as stale; its id stays, so a receiver that has stored it
reports a duplicate.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson

from inboxd.errors import NotFound, UsageError
from inboxd.settings import Settings
from inboxd.signatures.sources import secret_header, verifier_for
from inboxd.store import listing, receipts
from inboxd.store.receipts import ReceiptRow
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class RequestAgain:
    """secret_header: a header that contains a secret, or None. kept: the headers as they came."""

    receipt_id: UUID
    source: str
    event_ids: Collection[UUID]
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    kept: Mapping[str, str] = field(repr=False)
    signed: bool
    secret_header: str | None

    @property
    def target(self) -> str:
        return f"receipt {self.receipt_id}"


async def request_again(
    session: Session, settings: Settings, id: int | UUID, *, original: bool = False
) -> RequestAgain:
    """original: with the headers as they came, not signed anew.

    Raises NotFound if receipt or body is not kept, DatabaseError, SettingsError for invalid keys.
    """
    row = await receipt_of(session, id, raw=True)
    body, kept = body_of(row), headers_of(row)
    signed, revealing = ({}, None) if original else _signed(settings, row, body, kept)
    headers = {"content-type": row["content_type"], **kept, **signed}
    return RequestAgain(
        row["receipt_id"],
        row["source"],
        row["event_ids"],
        body,
        {name: value for name, value in headers.items() if value is not None},
        kept,
        bool(signed),
        revealing,
    )


def _signed(
    settings: Settings, row: ReceiptRow, body: bytes, kept: Mapping[str, str]
) -> tuple[Mapping[str, str], str | None]:
    """Return empty headers if no key can sign; and `secret_header`."""
    source = settings.inbound.webhooks.get(row["source"])
    if source is None:
        return {}, None
    verifier = verifier_for(row["source"], source)
    kind, _, name = (verifier.default_dedup_key or "").partition(":")
    id_ = kept.get(name) if kind == "header" else None
    try:
        signed = verifier.sign(body, id_ or str(row["receipt_id"]), time.time())
    except UsageError:
        return {}, None
    return signed, secret_header(verifier, signed)


async def receipt_of(session: Session, id: int | UUID, *, raw: bool) -> ReceiptRow:
    """id: of the receipt, or of its event. Raises NotFound."""
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


async def events_of(session: Session, ids: Collection[UUID]) -> list[dict[str, Any]]:
    """Return the existing events, each in its first topic."""
    keys = ("id", "event_id", "type", "topic", "status", "attempts")
    rows = [await listing.one(session, "events", each, payload=False) for each in ids]
    return [{key: row[key] for key in keys} for row in rows if row is not None]


def headers_of(row: ReceiptRow) -> dict[str, str]:
    kept = row.get("headers")
    return orjson.loads(kept) if kept else {}


def body_of(row: ReceiptRow) -> bytes:
    """Raises NotFound if it is not kept."""
    body = row.get("body")
    if body is None:
        why = "the receipt is a duplicate" if row["outcome"] == "duplicate" else "it was erased"
        raise NotFound(f"the body of the receipt {row['receipt_id']} is not kept: {why}")
    return bytes(body)
