"""Rows as claims return them: which columns there are, and of which types.

At run time they are the driver's records, read by column name: making an object of each would cost
more than a tenth of what the worker spends on a row. The store's functions say what they return by
these types; a type checker sees each column.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict, cast
from uuid import UUID

from inboxd.store.connections import Row


class ClaimedRow(TypedDict):
    """What events and commands have in common, once they are claimed.

    Times are in seconds: `run_at` since the epoch, `waited` since it was due, `age` since it was
    created. replayed: this is its first attempt after a replay. body_id: a payload that is stored
    apart. lane: its position among those that the claim was given, from 1; 0 where it came from
    none.
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
    """A leased command: what `claim_commands.sql` and its like return.

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
    """An event that was claimed, or is read in its line.

    occurred_at: None where it is run_at. created_at: seconds since the epoch. headers: None if they
    are large, of headers_bytes.
    """

    event_id: UUID
    topic: str
    source: str | None
    headers: str | None
    headers_bytes: int | None
    occurred_at: datetime | None
    created_at: float
    # Of events in lines. position: None of one that is not lined up; ready: it is due; behind: its
    # line has lined-up events; again: it was a dead letter.
    bucket: NotRequired[int]
    position: NotRequired[int | None]
    ready: NotRequired[bool]
    behind: NotRequired[bool]
    again: NotRequired[bool]


def claimed_events(rows: Sequence[Row]) -> list[ClaimedEvent]:
    """The driver's records, as what they are."""
    return cast("list[ClaimedEvent]", rows)
