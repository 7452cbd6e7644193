"""Old rows of the smaller tables: statistics, audit, replays, batches.

Owns the statements that remove them. Promises that each touches a bounded number of rows, found by
an index.
"""

from datetime import timedelta

from inboxd.store.connections import Connection, one_row
from inboxd.store.statements import Statements


async def remove(
    connection: Connection, sql: Statements, table: str, age: timedelta, rows: int
) -> int:
    """Remove up to `rows` rows older than `age` of "stats", "audit" or "replays"; how many."""
    names = {"stats": "purge_stats", "audit": "purge_audit", "replays": "purge_replays"}
    return int(await connection.fetchval(sql[names[table]], age, rows))


async def batches(
    connection: Connection, sql: Statements, age: timedelta, after: int, rows: int
) -> tuple[int | None, int]:
    """Look at `rows` batches from number `after` on, and remove those that ended `age` ago.

    Returns the number to go on from (None: all were looked at), and how many were removed.
    """
    row = await one_row(connection, sql["purge_batches"], age, after, rows)
    return row["last"], row["removed"]
