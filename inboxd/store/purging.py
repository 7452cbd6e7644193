"""Deletes old rows of the smaller tables: statistics, samples, audit, replays, batches and more.

Owns the statements that delete them. Promises that each touches a bounded number of rows, found by
an index.
"""

from datetime import datetime, timedelta

from inboxd.store.session import Session

_BY_AGE = {
    "audit": "purge_audit",
    "actions": "purge_actions",
    "replays": "purge_replays",
    **{f"stats_{name}": f"purge_stats_{name}" for name in ("minutes", "hours", "days")},
    **{f"stats_tenant_{name}": f"purge_stats_tenant_{name}" for name in ("hours", "days")},
    "samples": "purge_samples",
    "sampled_lanes": "purge_sampled_lanes",
    "key_rates": "purge_key_rates",
}


async def remove(session: Session, table: str, age: timedelta, rows: int) -> int:
    """Delete at most `rows` rows older than `age` from a table; returns their number."""
    return int(await session.fetchval(_BY_AGE[table], age, rows))


async def forget_tenants(session: Session) -> None:
    """Free the places of tenants that have not been seen for a month, for other tenants."""
    await session.execute("forget_tenants")


async def forget_series(session: Session, after: int, rows: int) -> tuple[int | None, int]:
    """Look at `rows` series from an id on; delete those without counts.

    Needs a transaction. Returns the id to go on from (None: finished), and the number of deleted
    series.
    """
    await session.execute("lock_series")
    row = await session.one("forget_series", after, rows)
    return row["last"], row["removed"]


async def thin_samples(
    session: Session, age: timedelta, after: datetime, rows: int
) -> tuple[datetime | None, int]:
    """Look at `rows` samples after a time that are older than `age`; keep one per minute.

    Returns the time to go on from (None: finished), and the number of deleted samples.
    """
    row = await session.one("thin_samples", age, after, rows)
    return row["last"], row["removed"]


async def sent_webhooks(session: Session, rows: int) -> tuple[int, int]:
    """Look at `rows` deliveries with a chosen message id; delete the records of settled ones.

    Returns how many were looked at, and how many were deleted.
    """
    row = await session.one("purge_sent_webhooks", rows)
    return row["looked"], row["removed"]


async def batches(
    session: Session, age: timedelta, after: int, rows: int
) -> tuple[int | None, int]:
    """Look at `rows` batches from id `after` on, and delete those that ended `age` ago.

    Returns the id to go on from (None: finished), and the number of deleted batches.
    """
    row = await session.one("purge_batches", age, after, rows)
    return row["last"], row["removed"]
