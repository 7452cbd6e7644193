"""Messages of brokers, and the events in them.

Known limit: nothing is checked here, as in `receipt.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inboxd.model.receipt import ReceivedEvent


@dataclass(slots=True)
class ReceivedMessage:
    """One message. For several topics, several events share one event id.

    stream, position, identity: its place, as in `IncomingMessage`. body: the part that is kept.
    occurred_at: None if the message does not name it. other_id: for its events, whose id the sender
    chose, if an unsettled event has that id already; None: such an event is the same message.
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
