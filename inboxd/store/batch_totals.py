"""Totals of batches and workflows: by status, of all, of a type, of a tenant.

A batch has no day after which nothing changes: so a trigger notes each change, the leader adds the
changes up, and a reader adds those that are left. Promises that each change counts exactly once,
even if a leader is killed, and that a reader sees totals and changes of one moment.
"""

from typing import NamedTuple

from inboxd.store.session import Session


class CountedBatches(NamedTuple):
    """Batches by status; looked: the number of changes that were read."""

    statuses: dict[str, int]
    looked: int


async def add_up(session: Session, changes: int) -> int:
    """Add up the oldest changes, within a transaction; returns their number."""
    ids = [row["id"] for row in await session.fetch("hold_batch_changes", changes)]
    if ids:
        await session.execute("add_batch_totals", ids)
        await session.execute("remove_batch_changes", ids)
    return len(ids)


async def forget(session: Session, totals: int) -> None:
    """Delete at most `totals` totals that are 0."""
    await session.execute("forget_batch_totals", totals)


async def read(
    session: Session, kind: str | None, type_: str | None, tenant: str | None, most: int
) -> CountedBatches:
    """The totals of one or all kinds, types and tenants; reads at most `most` changes."""
    rows = await session.fetch("total_batches", kind, type_, tenant, most)
    return CountedBatches({row["status"]: row["rows"] for row in rows}, rows[0]["looked"])
