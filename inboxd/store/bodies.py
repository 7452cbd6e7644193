"""Large payloads, stored apart from their rows.

Owns the reading of bodies in portions, so that memory stays bounded whatever a page's rows weigh
(promise 9), and that a body is found that was copied forward after its row had been claimed
(migration 0012). Known limit: one body larger than the budget is still read whole.
"""

from collections.abc import Iterator, Sequence

from inboxd.store.connections import Connection, Row
from inboxd.store.statements import Statements


def weight(rows: Sequence[Row]) -> int:
    """Bytes of the bodies of rows."""
    return sum(row["body_bytes"] or 0 for row in rows)


def portions(rows: Sequence[Row], budget: int) -> Iterator[Sequence[Row]]:
    """Cut rows, in order, into portions whose bodies weigh at most `budget` bytes together."""
    start, together = 0, 0
    for position, row in enumerate(rows):
        size = row["body_bytes"] or 0
        if together and together + size > budget:
            yield rows[start:position]
            start, together = position, 0
        together += size
    if start < len(rows):
        yield rows[start:]


async def read(connection: Connection, sql: Statements, rows: Sequence[Row]) -> dict[int, str]:
    """The payloads (JSON text) of those rows that have a body, by body id."""
    wanted = [row for row in rows if row["body_id"] is not None]
    if not wanted:
        return {}
    found = await _fetch(connection, sql["read_bodies"], wanted)
    if missing := [row for row in wanted if row["body_id"] not in found]:
        found |= await _fetch(connection, sql["read_moved_bodies"], missing)
    return found


async def _fetch(connection: Connection, query: str, rows: Sequence[Row]) -> dict[int, str]:
    ids, times = [row["body_id"] for row in rows], [row["body_at"] for row in rows]
    return {row[0]: row[1] for row in await connection.fetch(query, ids, times)}
