"""The statistics per minute, and the backlog that metrics show.

Owns the stats table. Promises that reading or writing them costs the same whatever history weighs.
Known limit: what a worker counted since it last wrote is lost when it is killed; backlogs are
counted up to a bound.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from inboxd.store.connections import Connection, Row
from inboxd.store.statements import Statements

# Counting further would cost more than the answer is worth: «100,000 or more».
MOST_COUNTED = 100_000

Counts = tuple[datetime, str, str, str, int, float, float]


class Backlog(NamedTuple):
    """Rows of one lane and status; age: of the oldest due one, in seconds, unless it is paused."""

    kind: str
    lane: str
    status: str
    rows: int
    age: float | None


async def add(
    connection: Connection, sql: Statements, worker: UUID, counts: Sequence[Counts]
) -> None:
    """Add (minute, kind, type, outcome, count, total, maximum) rows, if any; times in seconds."""
    if counts:
        columns = [list(column) for column in zip(*counts, strict=True)]
        await connection.execute(sql["add_statistics"], worker, *columns)


async def add_ignored(
    connection: Connection, sql: Statements, worker: UUID, type_: str, count: int
) -> None:
    """Count events that were ignored, in the transaction in which they were."""
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    await add(connection, sql, worker, [(minute, "event", type_, "ignored", count, 0.0, 0.0)])


async def backlog(connection: Connection, sql: Statements) -> list[Backlog]:
    """What is unsettled, lane by lane; `kept` is what nobody handles."""
    rows: list[Row] = []
    for name in ("backlog_events", "backlog_commands"):
        rows += await connection.fetch(sql[name], MOST_COUNTED)
    found = [Backlog(*row) for row in rows]
    for row in await connection.fetch(sql["status_lines"], MOST_COUNTED):
        name = f"{row['topic']}/lines"
        found.append(Backlog("event", name, "pending", row["arrived"], row["late"]))
        found.append(Backlog("event", name, "waiting", row["lined_up"], None))
        if row["kept"]:
            found.append(Backlog("event", name, "kept", row["kept"], row["kept_for"]))
    return found
