"""Accepted HTTP requests, unchanged, and the events in them; nothing is checked here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(slots=True)
class ReceivedEvent:
    """payload, headers: JSON text. topic None: all topics of its type.

    broken: why it is a dead letter at once; its payload then has the body as text or base64.
    """

    event_id: UUID
    type: str
    payload: str
    topic: str | None = None
    ordering_key: str | None = None
    dedup_key: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    headers: str | None = None
    traceparent: str | None = None
    broken: str | None = None


@dataclass(slots=True)
class Receipt:
    """One request. For several topics, several events share one event id.

    receipt_id: version 7, made at reception. headers: JSON text, never with Authorization or
    Cookie. hold: the settings pause its source (only the database knows pauses by operators).
    """

    receipt_id: UUID
    received_at: datetime
    source: str
    body: bytes
    content_type: str | None
    headers: str | None
    address: str | None
    key_id: str | None
    events: list[ReceivedEvent]
    hold: bool = False
