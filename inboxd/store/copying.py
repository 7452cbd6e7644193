"""The rows of a partition of history, copied out as they stream.

Owns the two shapes, JSON lines and CSV. Promises bounded memory, snapshots of a second or so (one
long snapshot would keep dead rows in the hot tables), and that times and bytes look the same
whatever the database is set to. Known limit: a row that is changed
meanwhile may come twice or not at all; nobody changes rows of days that are over but retention.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from inboxd.store import partitions
from inboxd.store.connections import Connection
from inboxd.store.partitions import Partition
from inboxd.store.statements import Statements

Write = Callable[[bytes], Coroutine[Any, Any, None]]

# Pages of one COPY: 64 MB.
_PAGES = 8192
# JSON escapes control characters, so these two never come up, and COPY adds nothing to a line.
_DELIMITER, _QUOTE = "\x02", "\x01"
# For one COPY: behind a pooler nothing can be set for a session.
_LOOKS = "SET LOCAL datestyle = 'ISO'; SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'"


async def count(connection: Connection, sql: Statements, partition: Partition) -> int:
    """How many rows an attached partition has."""
    table = partition.parent.removesuffix("_history")
    return int(
        await connection.fetchval(sql[f"count_{table}_history"], partition.low, partition.high)
    )


async def copy_out(
    connection: Connection, sql: Statements, partition: Partition, form: str, write: Write
) -> int:
    """Copy an attached partition to `write`, as "jsonl" or "csv"; returns the rows."""
    table = partition.parent.removesuffix("_history")
    is_csv, rows = form == "csv", 0
    query = sql[f"export_{table}_csv" if is_csv else f"export_{table}_jsonl"]
    size = await partitions.pages(connection, sql, partition)
    for page in range(0, max(size, 1), _PAGES):
        async with connection.transaction():
            await connection.execute(_LOOKS)
            tag = await connection.copy_from_query(
                query,
                *(partition.low, partition.high, f"({page},0)", f"({page + _PAGES},0)"),
                output=write,
                format="csv",
                header=is_csv and page == 0,
                delimiter=None if is_csv else _DELIMITER,
                quote=None if is_csv else _QUOTE,
            )
        rows += int(tag.split()[-1])
    return rows
