"""The events table: survey, claim, settle, fail; and the commands that events' handlers sent.

Owns the arrays that the statements take. Promises that a page is a fixed number of statements,
however many rows it has. Known limit: all but `survey` must run inside the page's transaction,
whose row locks are the fence.
*See:* `events/sources/single.py`, which claims; `events/settling.py`, which settles.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from inboxd.errors import LeaseLost
from inboxd.model.lane import Key, Lane, Sighting
from inboxd.store.arrays import columns, cursors
from inboxd.store.connections import Connection
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.settlements import Requeue
from inboxd.store.statements import Statements


class Mark(NamedTuple):
    """A row whose crash is counted before it runs, as it was before; run_at in seconds."""

    id: int
    crashes: int
    run_at: float


async def survey(connection: Connection, sql: Statements) -> list[Sighting]:
    """Every lane of pending events."""
    rows = await connection.fetch(sql["survey_events"])
    return [Sighting((row[0], row[1]), *row[2:]) for row in rows]


async def claim(
    connection: Connection, sql: Statements, lanes: Sequence[Lane], rows: int
) -> list[ClaimedEvent]:
    """Up to `rows` due events of these lanes, locked; `lane` counts from 1."""
    found = await connection.fetch(
        sql["claim_events"],
        *cursors(lanes, 0, 1),
        rows,
    )
    return claimed_events(found)


async def settle(
    connection: Connection,
    sql: Statements,
    done: Sequence[tuple[int, float]],
    worker: UUID,
    *,
    all_of_them: bool = True,
) -> None:
    """Move finished events, given as (id, seconds), into history.

    Raises LeaseLost when some of them are not there any more: somebody else had them, so nothing
    of this transaction may count. Locks see to it that this does not happen; where rows were not
    locked meanwhile (`all_of_them=False`), operators may have put some away.
    """
    status = await connection.execute(
        sql["settle_events"], [id_ for id_, _ in done], [seconds for _, seconds in done], worker
    )
    if all_of_them and (moved := int(status.rpartition(" ")[2])) != len(done):
        raise LeaseLost(f"{len(done) - moved} of {len(done)} events were settled by somebody else")


async def requeue(connection: Connection, sql: Statements, requeues: Sequence[Requeue]) -> None:
    """Write the retries, deferrals and dead letters of a page."""
    await connection.execute(
        sql["requeue_events"],
        *columns(requeues, "id", "status", "spent", "delay", "run_at"),
        *columns(requeues, "error", "fingerprint", "crashes"),
    )


async def mark_crash(
    connection: Connection, sql: Statements, event_id: int, keep: timedelta
) -> None:
    """Count a crash before the event runs alone, and keep the others off it for a while."""
    await connection.execute(sql["mark_crash"], event_id, keep)


async def unmark_crash(connection: Connection, sql: Statements, mark: Mark) -> None:
    """Take back the crash that was counted."""
    await connection.execute(sql["unmark_crash"], *mark)


async def claim_one(connection: Connection, sql: Statements, event_id: int) -> ClaimedEvent | None:
    """The event by id, locked; None when it is gone."""
    found = claimed_events(await connection.fetch(sql["claim_event"], event_id))
    return found[0] if found else None


async def stranded(
    connection: Connection, sql: Statements, lane: Key, rows: int, waited: timedelta
) -> list[int]:
    """Up to `rows` events of a lane that nobody handles, locked; none when somebody does now."""
    found = await connection.fetch(sql["stranded_events"], *lane, rows, waited)
    return [row["id"] for row in found]


async def ignore(connection: Connection, sql: Statements, ids: Sequence[int], error: str) -> int:
    """Let events that nobody handles, and that are locked, end as dismissed; returns how many."""
    status = await connection.execute(sql["ignore_events"], ids, error)
    return int(status.rpartition(" ")[2])
