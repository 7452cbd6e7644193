"""Rows as claims return them: which columns there are, and of which types.

At run time they are the driver's records, read by column name: making an object of each would cost
more than a tenth of what the worker spends on a row. The store's functions say what they return by
these types; a type checker sees each column.
"""

from datetime import datetime
from typing import TypedDict
from uuid import UUID


class ClaimedCommand(TypedDict):
    """A leased command: what `claim_commands.sql` and its like return.

    Times that a claim counts are in seconds: `run_at` since the epoch, `waited` since it was due,
    `age` since it was created. late: its deadline has passed. lane: its position among those that
    the claim was given, from 1; 0 where it came from none.
    """

    id: int
    command_id: UUID
    queue: str
    type: str
    schema_version: int
    payload: str | None
    priority: int
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    attempts: int
    max_attempts: int | None
    crashes: int
    fence: int
    run_at: float
    deadline: datetime | None
    late: bool | None
    cancel_requested: bool
    origin_kind: str
    origin_id: int | None
    replay_of: int | None
    batch_id: int | None
    awaited: bool
    ordering_key: str | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    body_id: int | None
    body_at: datetime | None
    body_bytes: int | None
    waited: float
    age: float
    lane: int
