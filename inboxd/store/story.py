"""The rows of a story: a row and what it came from, what it created, what it waits for.

Owns the reading statements behind lineage. Promises that none reads more rows of a parent than the
limit given, however many children the parent has.
Known limit: without a day to begin with, a uuid is looked up in every partition of history.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session


async def find(session: Session, id: int | UUID) -> list[Row]:
    """The rows with this uuid (one at most) or number (one of each kind at most)."""
    uuid, number = (id, None) if isinstance(id, UUID) else (None, id)
    return await session.fetch("story_find", uuid, number)


async def up(session: Session, kind: str, id: int, rows: int) -> list[Row]:
    """A row, its parent, the parent's parent and so on, as many rows as asked for."""
    return await session.fetch("story_up", kind, id, rows)


async def member(
    session: Session, kind: str, id: int, since: datetime, until: datetime
) -> Row | None:
    """One row, unless it was settled before or after; None: there is none."""
    return await session.fetchrow("story_member", kind, id, since, until)


async def down(
    session: Session,
    parents: Sequence[tuple[str, int, UUID]],
    since: datetime,
    look: int,
    rows: int,
    *,
    members: bool = True,
) -> list[Row]:
    """Children of rows, given as kind, number and uuid; of a batch its members too, if `members`.

    since: nothing that is looked for was finished before. look, rows: how many of each parent are
    looked at, and returned; `parent_kind`, `parent_id` and `looked` (by status) come with each row.
    """
    return await session.fetch(
        "story_down",
        [uuid for _, _, uuid in parents],
        [id if members and kind == "batch" else None for kind, id, _ in parents],
        since,
        look,
        rows,
        [kind for kind, _, _ in parents],
        [id for _, id, _ in parents],
    )


async def waits(session: Session, rows: Sequence[UUID], limit: int) -> list[Row]:
    """What these rows wait for: waiting, condition, kind, id, type, status."""
    return await session.fetch("story_waits", rows, limit)


async def steps(session: Session, rows: Sequence[UUID]) -> dict[UUID, str]:
    """The names of those among these rows that are steps of a workflow."""
    found = await session.fetch("story_steps", rows)
    return {row["member"]: row["name"] for row in found}


async def replays(session: Session, rows: Sequence[tuple[str, int]], limit: int) -> list[Row]:
    """How these rows (kind, number) were replayed: kind, old_id, new_id, at, actor, reason."""
    kinds, numbers = [kind for kind, _ in rows], [number for _, number in rows]
    return await session.fetch("story_replays", kinds, numbers, limit)


async def attempts(
    session: Session, rows: Sequence[tuple[str, int, datetime | None]]
) -> tuple[dict[tuple[str, int], list[datetime]], datetime]:
    """When attempts of rows (kind, number, when it was settled) failed; and what the time is."""
    found = await session.fetch(
        "story_attempts",
        [kind for kind, _, _ in rows],
        [number for _, number, _ in rows],
        [settled for _, _, settled in rows],
    )
    failed = {
        (row["kind"], row["id"]): [at for at in map(_moment, row["failed"]) if at is not None]
        for row in found
        if row["kind"] is not None
    }
    return failed, found[0]["now"]


def _moment(text: str | None) -> datetime | None:
    """A time as it is written in `errors`; None: whoever wrote that wrote no time."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if at.tzinfo is None else at
