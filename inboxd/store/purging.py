"""Deletes old rows of the smaller tables: statistics, samples, audit, replays, batches and more.

Promises that each call touches a bounded number of rows, found by an index. A walk returns where
the next call goes on (None: finished), and how many rows it deleted.
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
    return int(await session.fetchval(_BY_AGE[table], age, rows))


async def forget_tenants(session: Session) -> None:
    """Free the places of tenants that have not been seen for a month, for other tenants."""
    await session.execute("forget_tenants")


async def forget_series(session: Session, after: int, rows: int) -> tuple[int | None, int]:
    """Of `rows` series, delete those without counts. Needs a transaction."""
    await session.execute("lock_series")
    row = await session.one("forget_series", after, rows)
    return row["last"], row["removed"]


async def thin_samples(
    session: Session, age: timedelta, after: datetime, rows: int
) -> tuple[datetime | None, int]:
    """Of `rows` samples older than `age`, keep one per minute."""
    row = await session.one("thin_samples", age, after, rows)
    return row["last"], row["removed"]


async def sent_webhooks(session: Session, rows: int) -> tuple[int, int]:
    """Delete the records of settled deliveries; returns how many were looked at, and deleted."""
    row = await session.one("purge_sent_webhooks", rows)
    return row["looked"], row["removed"]


async def batches(
    session: Session, age: timedelta, after: int, rows: int
) -> tuple[int | None, int]:
    """Of `rows` batches, delete those that ended `age` ago."""
    row = await session.one("purge_batches", age, after, rows)
    return row["last"], row["removed"]
