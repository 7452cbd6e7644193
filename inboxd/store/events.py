"""The events table: survey, claim, settle, fail.

Owns the arrays that the statements take. Promises that a page needs a fixed number of statements,
whatever its number of rows. Known limit: all but `survey` must run inside the page's transaction,
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
    """An event whose crash is counted before it runs, with its earlier values; run_at: seconds."""

    id: int
    crashes: int
    run_at: float


async def survey(connection: Connection, sql: Statements) -> list[Sighting]:
    rows = await connection.fetch(sql["survey_events"])
    return [Sighting((row[0], row[1]), *row[2:]) for row in rows]


async def claim(
    connection: Connection, sql: Statements, lanes: Sequence[Lane], rows: int
) -> list[ClaimedEvent]:
    """At most `rows` due events of these lanes, locked; `lane` in a row counts from 1."""
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

    Raises LeaseLost if some are missing: another transaction settled them, so this one must not
    commit. Row locks prevent that; but if the rows were not locked (`all_of_them=False`), operators
    may have settled some.
    """
    status = await connection.execute(
        sql["settle_events"], [id_ for id_, _ in done], [seconds for _, seconds in done], worker
    )
    if all_of_them and (moved := int(status.rpartition(" ")[2])) != len(done):
        raise LeaseLost(f"another transaction settled {len(done) - moved} of {len(done)} events")


async def requeue(connection: Connection, sql: Statements, requeues: Sequence[Requeue]) -> None:
    await connection.execute(
        sql["requeue_events"],
        *columns(requeues, "id", "status", "spent", "delay", "run_at"),
        *columns(requeues, "error", "fingerprint", "crashes"),
    )


async def mark_crash(
    connection: Connection, sql: Statements, event_id: int, keep: timedelta
) -> None:
    """Count a crash before the event runs alone; other workers skip the event for `keep`."""
    await connection.execute(sql["mark_crash"], event_id, keep)


async def unmark_crash(connection: Connection, sql: Statements, mark: Mark) -> None:
    """Restore the values from before the counted crash."""
    await connection.execute(sql["unmark_crash"], *mark)


async def claim_one(connection: Connection, sql: Statements, event_id: int) -> ClaimedEvent | None:
    """The event with this id, locked; None if it is gone."""
    found = claimed_events(await connection.fetch(sql["claim_event"], event_id))
    return found[0] if found else None


async def stranded(
    connection: Connection, sql: Statements, lane: Key, rows: int, waited: timedelta
) -> list[int]:
    """Lock at most `rows` unhandled events of a lane; none if a worker handles it now."""
    found = await connection.fetch(sql["stranded_events"], *lane, rows, waited)
    return [row["id"] for row in found]


async def ignore(connection: Connection, sql: Statements, ids: Sequence[int], error: str) -> int:
    """Dismiss locked events that no worker handles; returns their number."""
    status = await connection.execute(sql["ignore_events"], ids, error)
    return int(status.rpartition(" ")[2])
