"""What is large of a row, and not claimed with it: payloads, stored apart, and headers.

Owns the reading of both in portions, so that memory stays bounded whatever a page's rows weigh
(promise 9), and that a body is found that was copied forward after its row had been claimed
(migrations/functions/keep_bodies.sql). Known limits: what one row has is read whole, also if it is
more than the budget; compressed headers are taken to be as large as they can be.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from inboxd.store.connections import Connection
from inboxd.store.rows import ClaimedEvent, ClaimedRow
from inboxd.store.statements import Statements


def weight(rows: Sequence[ClaimedEvent]) -> int:
    """Bytes of the bodies and headers of rows."""
    return sum(map(_size, rows))


def _size(row: ClaimedEvent) -> int:
    return (row["body_bytes"] or 0) + (row["headers_bytes"] or 0)


def portions(rows: Sequence[ClaimedEvent], budget: int) -> Iterator[Sequence[ClaimedEvent]]:
    """Cut rows, in order, into portions whose bodies and headers weigh at most `budget` bytes."""
    start, together = 0, 0
    for position, row in enumerate(rows):
        size = _size(row)
        if together and together + size > budget:
            yield rows[start:position]
            start, together = position, 0
        together += size
    if start < len(rows):
        yield rows[start:]


async def read(
    connection: Connection, sql: Statements, rows: Sequence[ClaimedRow]
) -> dict[int, str]:
    """The payloads (JSON text) of those rows that have a body, by body id."""
    wanted = [row for row in rows if row["body_id"] is not None]
    if not wanted:
        return {}
    found = await _fetch(connection, sql["read_bodies"], wanted)
    if missing := [row for row in wanted if row["body_id"] not in found]:
        found |= await _fetch(connection, sql["read_moved_bodies"], missing)
    return found


async def complete(
    connection: Connection, sql: Statements, rows: Sequence[ClaimedEvent]
) -> Sequence[ClaimedEvent]:
    """The same rows, with the headers that their claim left out."""
    left = [row["id"] for row in rows if row["headers"] is None and row["headers_bytes"]]
    if not left:
        return rows
    found = await connection.fetch(sql["read_headers"], left)
    headers = {row["id"]: row["headers"] for row in found}
    return [
        cast("ClaimedEvent", {**row, "headers": headers[row["id"]]})
        if row["id"] in headers
        else row
        for row in rows
    ]


async def _fetch(connection: Connection, query: str, rows: Sequence[ClaimedRow]) -> dict[int, str]:
    ids, times = [row["body_id"] for row in rows], [row["body_at"] for row in rows]
    return {row[0]: row[1] for row in await connection.fetch(query, ids, times)}
