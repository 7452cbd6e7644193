"""Batches and workflows for operators: lists, details, cancelling.

Promises that a look reads a bounded number of rows, and that no walk counts a batch's members.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """None or empty matches any. since, until: of the creation. above, below: of ids."""

    kind: str | None = None
    statuses: Collection[str] = ()
    tenant: str | None = None
    name: str | None = None
    type: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    open: bool | None = None
    above: int | None = None
    below: int | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True)
class BatchLook:
    """low, low_created_at: of the last row read. ended: the first end. None: the page is full."""

    rows: list[dict[str, Any]]
    looked: int
    low: int | None
    low_created_at: datetime | None
    ended: datetime | None


_OF_LOOK = ("looked", "low", "low_created_at", "ended", "place")


async def look(session: Session, wanted: BatchFilter, most: int) -> BatchLook:
    found = await session.fetch(
        "list_batches",
        wanted.kind,
        list(wanted.statuses) or None,
        wanted.tenant,
        wanted.name,
        wanted.since,
        wanted.open,
        wanted.type,
        wanted.below,
        wanted.until,
        wanted.above,
        most,
        wanted.limit,
    )
    rows = [
        {name: value for name, value in row.items() if name not in _OF_LOOK}
        for row in found
        if row["id"] is not None
    ]
    last = found[-1]
    looked = last["looked"] or last["place"] or 0
    return BatchLook(rows, looked, last["low"], last["low_created_at"], last["ended"])


async def recent(
    session: Session, wanted: BatchFilter, since: datetime, unit: str, look: int
) -> list[Row]:
    given = (wanted.kind, wanted.type, wanted.tenant, since, unit, look)
    return await session.fetch("recent_batches", *given)


async def matching(session: Session, wanted: BatchFilter, look: int) -> Row:
    return await session.one(
        "match_batches",
        wanted.kind,
        list(wanted.statuses) or None,
        wanted.tenant,
        wanted.name,
        wanted.since,
        wanted.open,
        wanted.type,
        wanted.until,
        look,
    )


async def one(session: Session, id: int | UUID) -> Row | None:
    return await session.fetchrow("show_batch", *_key(id))


async def steps(session: Session, workflow: int, limit: int, created_at: datetime) -> list[Row]:
    """Steps of a workflow; created_at: the workflow's. See `batch_steps.sql`."""
    return await session.fetch("batch_steps", workflow, limit, created_at)


async def continuations(session: Session, batch_id: UUID, limit: int) -> list[Row]:
    return await session.fetch("batch_continuations", batch_id, limit)


async def failures(session: Session, batch: int, limit: int) -> list[Row]:
    return await session.fetch("batch_failures", batch, limit)


async def members(
    session: Session,
    batch: int,
    statuses: Collection[str],
    after: int,
    limit: int,
    look: int,
    created_at: datetime,
) -> list[Row]:
    """Commands in a batch; created_at: the batch's. See `batch_members.sql`."""
    given = (batch, list(statuses) or None, after, limit, look, created_at)
    return await session.fetch("batch_members", *given)


async def nested(session: Session, batch: int, limit: int) -> list[Row]:
    return await session.fetch("nested_batches", batch, limit)


async def lock(session: Session, id: int | UUID) -> Row | None:
    """Lock a batch until the transaction ends, and return it."""
    return await session.fetchrow("lock_batch", *_key(id))


async def cancel(session: Session, batch: int) -> None:
    """Mark a batch as cancelled; the next folds end its members."""
    await session.execute("cancel_batch", batch)


def _key(id: int | UUID) -> tuple[int | None, UUID | None]:
    return (None, id) if isinstance(id, UUID) else (id, None)
