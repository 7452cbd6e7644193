"""The rows of a story: ancestors, descendants, and rows that they wait for.

Known limit: without a day to begin with, a uuid is searched in every partition of history.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from inboxd.store.connections import Row
from inboxd.store.session import Session


async def find(session: Session, id: int | UUID) -> list[Row]:
    """The rows with this uuid (at most one), or this id (at most one of each kind)."""
    uuid, number = (id, None) if isinstance(id, UUID) else (None, id)
    return await session.fetch("story_find", uuid, number)


async def up(session: Session, kind: str, id: int, rows: int) -> list[Row]:
    return await session.fetch("story_up", kind, id, rows)


async def member(
    session: Session, kind: str, id: int, since: datetime, until: datetime
) -> Row | None:
    """One row; None if it does not exist, or was settled outside of the time."""
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
    """parents: (kind, id, uuid). since: no child was settled before. members: also of batches.

    look, rows: how many children per parent are looked at, and returned. `looked`: by status.
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
    return await session.fetch("story_waits", rows, limit)


async def steps(session: Session, rows: Sequence[UUID]) -> dict[UUID, str]:
    found = await session.fetch("story_steps", rows)
    return {row["member"]: row["name"] for row in found}


async def replays(session: Session, rows: Sequence[tuple[str, int]], limit: int) -> list[Row]:
    kinds, numbers = [kind for kind, _ in rows], [number for _, number in rows]
    return await session.fetch("story_replays", kinds, numbers, limit)


async def attempts(
    session: Session, rows: Sequence[tuple[str, int, datetime | None]]
) -> tuple[dict[tuple[str, int], list[datetime]], datetime]:
    """When attempts of rows (kind, id, finished_at) failed; and the database's time now."""
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
    """A time from `errors`; None if the text is not a time with a zone."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if at.tzinfo is None else at
