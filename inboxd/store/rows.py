"""Claimed rows: their columns and types.

At run time they are the driver's records, read by column name: making an object of each would cost
more than a tenth of the worker's time per row. The store's functions declare these types, so that a
type checker knows each column.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict, cast
from uuid import UUID

from inboxd.store.connections import Row


class ClaimedRow(TypedDict):
    """The common columns of claimed events and commands.

    Times are in seconds: `run_at` since the epoch, `waited` since it was due, `age` since it was
    created. replayed: this is its first attempt after a replay. body_id: the payload is in
    `bodies`. lane: the index of its lane in the claim's list, from 1; 0 if it came from none.
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
    """A leased command, as `claim_commands.sql` and similar statements return it.

    late: its deadline has passed.
    """

    command_id: UUID
    queue: str
    priority: int
    max_attempts: int | None
    fence: int
    deadline: datetime | None
    late: bool | None
    cancel_requested: bool
    origin_kind: str
    origin_id: int | None
    replay_of: int | None
    batch_id: int | None
    awaited: bool


class ClaimedEvent(ClaimedRow):
    """An event that was claimed, or read from its line.

    occurred_at: None if equal to run_at. created_at: seconds since the epoch. headers: None if they
    are large; then headers_bytes has their size.
    """

    event_id: UUID
    topic: str
    source: str | None
    headers: str | None
    headers_bytes: int | None
    occurred_at: datetime | None
    created_at: float
    # Only of events in lines. position: None if not lined up; ready: due; behind: its line has
    # lined-up events; again: it was a dead letter.
    bucket: NotRequired[int]
    position: NotRequired[int | None]
    ready: NotRequired[bool]
    behind: NotRequired[bool]
    again: NotRequired[bool]


def claimed_events(rows: Sequence[Row]) -> list[ClaimedEvent]:
    """Cast the driver's records to their type."""
    return cast("list[ClaimedEvent]", rows)
