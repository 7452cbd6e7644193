"""Deletes old rows of the smaller tables: statistics, samples, audit, replays, batches and more.

Owns the statements that delete them. Promises that each touches a bounded number of rows, found by
an index.
"""

from datetime import datetime, timedelta

from inboxd.store.connections import Connection, one_row
from inboxd.store.statements import Statements

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


async def remove(
    connection: Connection, sql: Statements, table: str, age: timedelta, rows: int
) -> int:
    """Delete at most `rows` rows older than `age` from a table; returns their number."""
    return int(await connection.fetchval(sql[_BY_AGE[table]], age, rows))


async def forget_tenants(connection: Connection, sql: Statements) -> None:
    """Free the places of tenants that have not been seen for a month, for other tenants."""
    await connection.execute(sql["forget_tenants"])


async def forget_series(
    connection: Connection, sql: Statements, after: int, rows: int
) -> tuple[int | None, int]:
    """Look at `rows` series from an id on; delete those without counts.

    Needs a transaction. Returns the id to go on from (None: finished), and the number of deleted
    series.
    """
    await connection.execute(sql["lock_series"])
    row = await one_row(connection, sql["forget_series"], after, rows)
    return row["last"], row["removed"]


async def thin_samples(
    connection: Connection, sql: Statements, age: timedelta, after: datetime, rows: int
) -> tuple[datetime | None, int]:
    """Look at `rows` samples after a time that are older than `age`; keep one per minute.

    Returns the time to go on from (None: finished), and the number of deleted samples.
    """
    row = await one_row(connection, sql["thin_samples"], age, after, rows)
    return row["last"], row["removed"]


async def sent_webhooks(connection: Connection, sql: Statements, rows: int) -> tuple[int, int]:
    """Look at `rows` deliveries with a chosen message id; delete the records of settled ones.

    Returns how many were looked at, and how many were deleted.
    """
    row = await one_row(connection, sql["purge_sent_webhooks"], rows)
    return row["looked"], row["removed"]


async def batches(
    connection: Connection, sql: Statements, age: timedelta, after: int, rows: int
) -> tuple[int | None, int]:
    """Look at `rows` batches from id `after` on, and delete those that ended `age` ago.

    Returns the id to go on from (None: finished), and the number of deleted batches.
    """
    row = await one_row(connection, sql["purge_batches"], age, after, rows)
    return row["last"], row["removed"]
