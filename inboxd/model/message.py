"""Messages of brokers, and the events in them; nothing is checked here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inboxd.model.receipt import ReceivedEvent


@dataclass(slots=True)
class ReceivedMessage:
    """One message. For several topics, several events share one event id.

    stream, position, identity: as in `IncomingMessage`. other_id: for its events, if an unsettled
    event has the id that the sender chose; None: such an event is the same message.
    """

    stream: str
    position: int | None
    identity: str
    body: bytes
    events: list[ReceivedEvent]
    correlation_id: str | None = None
    causation_id: UUID | None = None
    occurred_at: datetime | None = None
    schema_version: int = 1
    other_id: UUID | None = None
