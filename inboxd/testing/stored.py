"""Rows as a test sees them: events and commands in any status.

Promises: a payload is the stored one, decoded; a row shows itself in a line.
Known limit: a row is a snapshot of the moment when it was read.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

_PAYLOAD_CHARACTERS = 120


class StoredRow(BaseModel):
    """The columns that events and commands share.

    `kind` is "event" or "command", `lane` its topic or queue. `errors` has an entry for each failed
    attempt, the newest last; `error` and `traceback` belong to the newest.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    lane: str
    id: int
    type: str
    schema_version: int
    payload: Any
    status: str
    attempts: int
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    ordering_key: str | None
    correlation_id: str | None
    causation_id: UUID | None
    origin_kind: str | None
    origin_id: int | None
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None = None
    stored_errors: list[dict[str, Any]] | None = Field(default=None, alias="errors")

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The errors of failed attempts, the newest last."""
        return self.stored_errors or []

    @property
    def error(self) -> str | None:
        """The newest error: "ValueError: no money"."""
        return self.errors[-1].get("error") if self.errors else None

    @property
    def traceback(self) -> str | None:
        """The newest error's traceback."""
        return self.errors[-1].get("traceback") if self.errors else None

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        payload = repr(self.payload)
        if len(payload) > _PAYLOAD_CHARACTERS:
            payload = f"{payload[:_PAYLOAD_CHARACTERS]}…"
        return f"{self.kind} {self.id} {self.type} ({self.lane}, {self.status}) {payload}"


class StoredEvent(StoredRow):
    """An event."""

    event_id: UUID
    topic: str
    mode: str
    source: str | None
    dedup_key: str | None
    headers: dict[str, Any] | None
    occurred_at: datetime


class StoredCommand(StoredRow):
    """A command."""

    command_id: UUID
    queue: str
    priority: int
    unique_key: str | None
    deadline: datetime | None
    expires_at: datetime | None
    max_attempts: int | None
    batch_id: int | None
    needs: int = 0
    result: Any
    progress: Any
