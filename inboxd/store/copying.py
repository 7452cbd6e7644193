"""Copies the rows of a partition of history out as a stream, as JSON lines or CSV.

Promises bounded memory, snapshots of about a second, and one format of times and bytes whatever the
settings. Known limit: a row that changes meanwhile may be copied twice or not at all.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from inboxd.store import partitions
from inboxd.store.partitions import Partition
from inboxd.store.session import Session

Write = Callable[[bytes], Coroutine[Any, Any, None]]

# Table pages per COPY: 64 MB.
_PAGES_PER_COPY = 8192
# JSON escapes control characters, so these two never occur in it, and COPY adds nothing to a line.
_DELIMITER, _QUOTE = "\x02", "\x01"
# Set per COPY, since a pooler allows no session settings.
_FORMATS = "SET LOCAL datestyle = 'ISO'; SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'"


async def count(session: Session, partition: Partition) -> int:
    table = partition.parent.removesuffix("_history")
    return int(await session.fetchval(f"count_{table}_history", partition.low, partition.high))


async def copy_out(session: Session, partition: Partition, form: str, write: Write) -> int:
    """Copy an attached partition to `write`, as "jsonl" or "csv"; returns the number of rows."""
    table = partition.parent.removesuffix("_history")
    is_csv, rows = form == "csv", 0
    query = session.sql[f"export_{table}_csv" if is_csv else f"export_{table}_jsonl"]
    size = await partitions.pages(session, partition)
    for page in range(0, max(size, 1), _PAGES_PER_COPY):
        async with session.transaction():
            await session.connection.execute(_FORMATS)
            tag = await session.connection.copy_from_query(
                query,
                *(partition.low, partition.high, f"({page},0)", f"({page + _PAGES_PER_COPY},0)"),
                output=write,
                format="csv",
                header=is_csv and page == 0,
                delimiter=None if is_csv else _DELIMITER,
                quote=None if is_csv else _QUOTE,
            )
        rows += int(tag.split()[-1])
    return rows
