"""Large parts of rows that a claim does not return: payloads stored in `bodies`, and headers.

Promises bounded memory (promise 9), but one row is read whole, and that a body is found that was
copied forward after the claim of its row (migrations/functions/keep_bodies.sql).
"""

from collections.abc import Iterator, Sequence
from typing import cast

from inboxd.store.rows import ClaimedEvent, ClaimedRow
from inboxd.store.session import Session


def weight(rows: Sequence[ClaimedEvent]) -> int:
    """The bytes of the rows' bodies and headers."""
    return sum(map(_size, rows))


def _size(row: ClaimedEvent) -> int:
    return (row["body_bytes"] or 0) + (row["headers_bytes"] or 0)


def portions(rows: Sequence[ClaimedEvent], budget: int) -> Iterator[Sequence[ClaimedEvent]]:
    """Cut rows, in order, into portions with at most `budget` bytes of bodies and headers."""
    start, together = 0, 0
    for position, row in enumerate(rows):
        size = _size(row)
        if together and together + size > budget:
            yield rows[start:position]
            start, together = position, 0
        together += size
    if start < len(rows):
        yield rows[start:]


async def read(session: Session, rows: Sequence[ClaimedRow]) -> dict[int, str]:
    """The payloads (JSON text) of rows with a body, by body id."""
    wanted = [row for row in rows if row["body_id"] is not None]
    if not wanted:
        return {}
    found = await _fetch(session, "read_bodies", wanted)
    if missing := [row for row in wanted if row["body_id"] not in found]:
        found |= await _fetch(session, "read_moved_bodies", missing)
    return found


async def complete(session: Session, rows: Sequence[ClaimedEvent]) -> Sequence[ClaimedEvent]:
    """The same rows, with the headers that the claim omitted."""
    left = [row["id"] for row in rows if row["headers"] is None and row["headers_bytes"]]
    if not left:
        return rows
    found = await session.fetch("read_headers", left)
    headers = {row["id"]: row["headers"] for row in found}
    return [
        cast("ClaimedEvent", {**row, "headers": headers[row["id"]]})
        if row["id"] in headers
        else row
        for row in rows
    ]


async def _fetch(session: Session, statement: str, rows: Sequence[ClaimedRow]) -> dict[int, str]:
    ids, times = [row["body_id"] for row in rows], [row["body_at"] for row in rows]
    return {row[0]: row[1] for row in await session.fetch(statement, ids, times)}
