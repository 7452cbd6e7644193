"""Dead letters that run again.

A command without an ordering key is replayed as a new row, which takes the old one's place in its
batch, in what waits for it and among a workflow's steps; the old row goes to history. With one it
has a place in a line, and an event is a fact: those run again in place. `replays` lists them all.

Promises: those of the package; of two replays of one row at once, one is refused. Known limit: a
command whose unique key is held by another unsettled one cannot be replayed before that has ended.
"""

from collections.abc import Sequence
from typing import NamedTuple

from inboxd.errors import Conflict
from inboxd.operations.many import STATUSES, Selection, Terms, in_pages
from inboxd.operations.rows import RowId, hold, listed, one, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import Place


class Replayed(NamedTuple):
    """The number of a dead letter, and of the row that runs in its place: its own, or a new one."""

    old_id: int
    new_id: int


async def replay(
    session: Session, place: Place, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> tuple[Replayed, ...]:
    """Let dead letters run again now, their attempts and crashes counted anew: all or none.

    ids: row numbers and uuids, mixed. Raises NotFound, or Conflict when one of them is no dead
    letter, its unique key is held by another command, or its batch was cancelled; then nothing is
    changed.
    """
    async with session.connection.transaction():
        rows = await hold(session, place, ids)
        refuse(place, rows, "replayed", STATUSES["replay"])
        wanted = [row["id"] for row in rows]
        done = await _do(session, place, wanted, actor, reason)
        if left := sorted(set(wanted) - {each.old_id for each in done}):
            raise Conflict(
                f"{one(place)} {listed(left)}: its batch was cancelled, or another unsettled "
                "command holds its unique key; nothing was changed: send it anew, or wait until "
                "the other one has ended"
            )
        await record(session, place, "replay", wanted, actor, reason)
        await wakeups.notify(session.connection, session.sql, place)
    return done


async def replay_matching(
    session: Session,
    place: Place,
    wanted: Selection,
    terms: Terms,
) -> int:
    """Let all dead letters that match run again; returns how many.

    What cannot be replayed, since its unique key is held or its batch was cancelled, is left.
    `in_pages` says the rest.
    """

    async def do(session: Session, place: Place, ids: Sequence[int]) -> int:
        return len(await _do(session, place, ids, terms.actor, terms.reason))

    return await in_pages(
        session,
        place,
        "replay",
        wanted,
        do,
        terms,
    )


async def _do(
    session: Session, place: Place, ids: Sequence[int], actor: str, reason: str | None
) -> tuple[Replayed, ...]:
    rows = await store.replay_in_place(session, place, ids, actor, reason)
    if place == "commands" and len(rows) < len(ids):
        rows += await store.replay_as_new(session, ids, actor, reason)
    return tuple(sorted(Replayed(row["old_id"], row["new_id"]) for row in rows))
