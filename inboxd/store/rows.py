"""Claimed rows: their columns and types.

They are the driver's records: an object for each would cost a tenth of the time per row.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict, cast
from uuid import UUID

from inboxd.store.connections import Row


class ClaimedRow(TypedDict):
    """run_at: seconds since the epoch. waited, age: seconds since it was due, and created.

    replayed: this is its first attempt after a replay. body_id: the payload is in `bodies`. lane:
    the index of its lane in the claim's list, from 1; 0 if it came from none.
    """

    id: int
    type: str
    schema_version: int
    payload: str | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    attempts: int
    crashes: int
    run_at: float
    ordering_key: str | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    body_id: int | None
    body_at: datetime | None
    body_bytes: int | None
    waited: float
    age: float
    replayed: bool
    lane: int


class ClaimedCommand(ClaimedRow):
    """late: its deadline has passed. expires_in: seconds; None: it has begun, or never expires."""

    command_id: UUID
    queue: str
    priority: int
    max_attempts: int | None
    fence: int
    deadline: datetime | None
    late: bool | None
    expires_in: float | None
    cancel_requested: bool
    origin_kind: str
    origin_id: int | None
    replay_of: int | None
    batch_id: int | None
    awaited: bool


class ClaimedEvent(ClaimedRow):
    """occurred_at: None if equal to run_at. headers: None if large; headers_bytes: their size."""

    event_id: UUID
    topic: str
    source: str | None
    headers: str | None
    headers_bytes: int | None
    occurred_at: datetime | None
    created_at: float
    # Only of events in lines. position: the place in its line, None if it has none yet; ready: the
    # event is due; behind: other events of its line have places; again: it was a dead letter.
    bucket: NotRequired[int]
    position: NotRequired[int | None]
    ready: NotRequired[bool]
    behind: NotRequired[bool]
    again: NotRequired[bool]


def claimed_events(rows: Sequence[Row]) -> list[ClaimedEvent]:
    return cast("list[ClaimedEvent]", rows)
