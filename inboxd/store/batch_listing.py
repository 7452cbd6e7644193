"""Batches and workflows as operators look at them, and end them.

Owns the statements behind the lists. Promises that a list reads no more rows than its limit from an
index in order, and that nothing of a batch is counted by walking over its members.
Known limit: as for other lists, a filter that almost nothing matches walks far.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.listing import COUNTED
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFilter:
    """Which batches a list shows; None (for `statuses`, empty) takes any."""

    kind: str | None = None
    statuses: Collection[str] = ()
    tenant: str | None = None
    name: str | None = None
    type: str | None = None
    since: datetime | None = None
    open: bool | None = None
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
        wanted.limit,
    )


async def totals(session: Session, wanted: BatchFilter) -> dict[str, int]:
    """How many of a type and a tenant there are of each status, none counted beyond COUNTED."""
    given = (wanted.kind, wanted.tenant, COUNTED, wanted.type)
    found = await session.fetch("count_batches", *given)
    return {row["status"]: row["count"] for row in found}


async def one(session: Session, id: int | UUID) -> Row | None:
    """One batch; None when there is none."""
    return await session.fetchrow("show_batch", *_key(id))


async def steps(session: Session, workflow: int, limit: int, created_at: datetime) -> list[Row]:
    """Steps of a workflow that was created then: see `batch_steps.sql`."""
    return await session.fetch("batch_steps", workflow, limit, created_at)


async def continuations(session: Session, batch_id: UUID, limit: int) -> list[Row]:
    """What waits for a batch still: condition, id, type, status."""
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
    """Commands in a batch that was created then: see `batch_members.sql`."""
    given = (batch, list(statuses) or None, after, limit, look, created_at)
    return await session.fetch("batch_members", *given)


async def nested(session: Session, batch: int, limit: int) -> list[Row]:
    """Batches in a batch: id, kind, name, status, size, unsettled."""
    return await session.fetch("nested_batches", batch, limit)


async def lock(session: Session, id: int | UUID) -> Row | None:
    """One batch, held until the transaction ends; None when there is none."""
    return await session.fetchrow("lock_batch", *_key(id))


async def cancel(session: Session, batch: int) -> None:
    """Let its members be ended by the folds that follow."""
    await session.execute("cancel_batch", batch)


def _key(id: int | UUID) -> tuple[int | None, UUID | None]:
    return (None, id) if isinstance(id, UUID) else (id, None)
