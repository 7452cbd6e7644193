"""Messages of brokers, and the events that are in them.

Known limit: nothing is checked here, as in `receipt.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inboxd.model.receipt import ReceivedEvent


@dataclass(slots=True)
class ReceivedMessage:
    """One message. Several topics: several events with one event id.

    stream, position, identity: where it stood, as `IncomingMessage` has it. body: as far as it is
    kept. occurred_at: None if it does not say. other_id: of its events where an unsettled one has
    their id, which its sender gave it; None: that is the same message.
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
