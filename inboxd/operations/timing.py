"""When rows run, and which before which: another time, another priority.

Promises: those of the package. Known limit: in a busy lane a row that was moved to the front is
found by the next sweep, not by the next page.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from inboxd.errors import Conflict, UsageError
from inboxd.model.lifecycle import Status
from inboxd.operations.rows import RowId, hold, listed, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.connections import Row
from inboxd.store.session import Session
from inboxd.store.wakeups import Place

_MOVABLE = (Status.PENDING, Status.WAITING)
_SMALLINT = range(-(2**15), 2**15)
# What the tables take.
_FIRST, _END = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


async def reschedule(
    session: Session,
    place: Place,
    ids: Sequence[RowId],
    run_at: datetime,
    *,
    actor: str,
    reason: str | None = None,
) -> tuple[int, ...]:
    """Let rows run at another time, at once if it has passed; returns the rows' numbers.

    ids: row numbers and uuids, mixed. Raises UsageError for a time without a zone, NotFound, or
    Conflict when one of the rows runs, has ended, or waits in a list; then nothing is changed.
    """
    if run_at.tzinfo is None or not _FIRST <= run_at < _END:
        raise UsageError(f"{run_at} is no time for a row: give one of 1970 to 9998, with its zone.")
    async with session.connection.transaction():
        rows = await hold(session, place, ids)
        refuse(place, rows, "rescheduled", _MOVABLE)
        if place == "events":
            _refuse_listed(rows)
        changed = tuple(await store.reschedule(session, place, [row["id"] for row in rows], run_at))
        to = f"{run_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        await record(session, place, "reschedule", changed, actor, reason, to=to)
        await wakeups.notify(session.connection, session.sql, place)
    return changed


async def reprioritize(
    session: Session,
    ids: Sequence[RowId],
    priority: int,
    *,
    actor: str,
    reason: str | None = None,
) -> tuple[int, ...]:
    """Give commands another priority, the smallest runs first; returns the rows' numbers.

    As `reschedule`; raises UsageError for a priority that is no number of 16 bits.
    """
    if priority not in _SMALLINT:
        raise UsageError(f"priority {priority} lies outside {_SMALLINT.start} to {_SMALLINT[-1]}.")
    async with session.connection.transaction():
        rows = await hold(session, "commands", ids)
        refuse("commands", rows, "given another priority", _MOVABLE)
        held = [row["id"] for row in rows]
        changed = tuple(await store.reprioritize(session, held, priority))
        await record(session, "commands", "prioritize", changed, actor, reason, to=str(priority))
        await wakeups.notify(session.connection, session.sql, "commands")
    return changed


def _refuse_listed(rows: Sequence[Row]) -> None:
    """Raise Conflict when an event waits in a list: that has a time, its events have none."""
    found = [row for row in rows if row["mode"] == "batch" and row["status"] == Status.WAITING]
    if found:
        where, topic = [f"{row['id']} of {row['topic']}" for row in found], found[0]["topic"]
        raise Conflict(
            f"event {listed(where)}: waits in a list of a batch topic, which is run when the "
            "topic's rule says, not at the times of its events; nothing was changed: `inboxd "
            f"topics flush {topic}` runs its lists now, `inboxd pause topic {topic}` holds them"
        )
