"""Batches and workflows for operators: lists, details, cancelling.

Owns the statements behind the lists. Promises that a list reads at most its limit of rows from an
index in order, and that no statement counts a batch by walking over its members.
Known limit: as for other lists, a filter that matches almost no row reads many rows.
*See:* `batch_totals.py` for their totals.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """The filter of a list of batches. None, or empty `statuses`, matches any batch.

    since, until: of the creation. above, below: of ids; `above` shortens the search for a time.
    """

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


async def rows(session: Session, wanted: BatchFilter) -> list[Row]:
    """A page of a list, newest first; the last row's id is the next page's `below`."""
    return await session.fetch(
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
        wanted.limit,
    )


async def recent(
    session: Session, wanted: BatchFilter, since: datetime, unit: str, look: int
) -> list[Row]:
    """The newest batches of a kind, type and tenant by time: see `recent_batches.sql`."""
    given = (wanted.kind, wanted.type, wanted.tenant, since, unit, look)
    return await session.fetch("recent_batches", *given)


async def matching(session: Session, wanted: BatchFilter, look: int) -> Row:
    """The number of matches among the newest `look` batches: see `match_batches.sql`."""
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
    """Commands that still wait for a batch: condition, id, type, status."""
    return await session.fetch("batch_continuations", batch_id, limit)


async def failures(session: Session, batch: int, limit: int) -> list[Row]:
    """Dead letters in a batch: id, type, attempts, error."""
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
    """Batches in a batch: id, kind, name, status, size, unsettled."""
    return await session.fetch("nested_batches", batch, limit)


async def lock(session: Session, id: int | UUID) -> Row | None:
    """Lock a batch until the transaction ends, and return it."""
    return await session.fetchrow("lock_batch", *_key(id))


async def cancel(session: Session, batch: int) -> None:
    """Mark a batch as cancelled; the next folds end its members."""
    await session.execute("cancel_batch", batch)


def _key(id: int | UUID) -> tuple[int | None, UUID | None]:
    return (None, id) if isinstance(id, UUID) else (id, None)
