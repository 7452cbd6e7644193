"""The events table: survey, claim, settle, fail.

Promises that a page needs a fixed number of statements, whatever its number of rows. Known limit:
all but `survey` must run inside the page's transaction, whose row locks are the fence.
*See:* `events/sources/single.py`, which claims; `events/settling.py`, which settles.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from inboxd.errors import LeaseLost
from inboxd.model.lane import Key, Lane, Sighting
from inboxd.store.arrays import columns, cursors
from inboxd.store.rows import ClaimedEvent, claimed_events
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue


class Mark(NamedTuple):
    """An event whose crash is counted before it runs, with its earlier values; run_at: seconds."""

    id: int
    crashes: int
    run_at: float


async def survey(session: Session) -> list[Sighting]:
    rows = await session.fetch("survey_events")
    return [Sighting((row[0], row[1]), *row[2:]) for row in rows]


async def claim(session: Session, lanes: Sequence[Lane], rows: int) -> list[ClaimedEvent]:
    """At most `rows` due events of these lanes, locked; `lane` in a row counts from 1."""
    found = await session.fetch("claim_events", *cursors(lanes, 0, 1), rows)
    return claimed_events(found)


async def settle(
    session: Session, done: Sequence[tuple[int, float]], worker: UUID, *, all_of_them: bool = True
) -> None:
    """done: (id, seconds) of each. Raises LeaseLost if some are missing: do not commit.

    all_of_them=False: the rows were not locked, so operators may have settled some.
    """
    status = await session.execute(
        "settle_events", [id_ for id_, _ in done], [seconds for _, seconds in done], worker
    )
    if all_of_them and (moved := int(status.rpartition(" ")[2])) != len(done):
        raise LeaseLost(f"another transaction settled {len(done) - moved} of {len(done)} events")


async def requeue(session: Session, requeues: Sequence[Requeue]) -> None:
    await session.execute(
        "requeue_events",
        *columns(requeues, "id", "status", "spent", "delay", "run_at"),
        *columns(requeues, "error", "fingerprint", "crashes"),
    )


async def mark_crash(session: Session, event_id: int, keep: timedelta) -> None:
    """Count a crash before the event runs alone; other workers skip the event for `keep`."""
    await session.execute("mark_crash", event_id, keep)


async def unmark_crash(session: Session, mark: Mark) -> None:
    await session.execute("unmark_crash", *mark)


async def claim_one(session: Session, event_id: int) -> ClaimedEvent | None:
    """The event with this id, locked; None if it is gone."""
    found = claimed_events(await session.fetch("claim_event", event_id))
    return found[0] if found else None


async def stranded(session: Session, lane: Key, rows: int, waited: timedelta) -> list[int]:
    """Lock at most `rows` unhandled events of a lane; none if a worker handles it now."""
    found = await session.fetch("stranded_events", *lane, rows, waited)
    return [row["id"] for row in found]


async def ignore(session: Session, ids: Sequence[int], error: str) -> int:
    status = await session.execute("ignore_events", ids, error)
    return int(status.rpartition(" ")[2])
