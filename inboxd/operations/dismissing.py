"""Dead letters that shall not run again.

Promises: those of the package. To a batch, and to what waits for it, a dismissed command counts as
cancelled: it will not succeed any more.
Known limit: there is no way back; what was dismissed can be read in history and sent anew.
"""

from collections.abc import Sequence

from inboxd.operations.many import STATUSES, Selection, Terms, in_pages
from inboxd.operations.rows import RowId, hold, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import Place


async def dismiss(
    session: Session, place: Place, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> tuple[int, ...]:
    """Put dead letters away, into history: all or none. Returns the rows' numbers.

    ids: row numbers and uuids, mixed. Raises NotFound, or Conflict when one of them is no dead
    letter; then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await hold(session, place, ids)
        refuse(place, rows, "dismissed", STATUSES["dismiss"])
        done = tuple(await store.dismiss(session, place, [row["id"] for row in rows]))
        await record(session, place, "dismiss", done, actor, reason)
        await wakeups.notify(session.connection, session.sql, place)
    return done


async def dismiss_matching(
    session: Session,
    place: Place,
    wanted: Selection,
    terms: Terms,
) -> int:
    """Put all dead letters that match away; returns how many. `in_pages` says the rest."""
    return await in_pages(
        session,
        place,
        "dismiss",
        wanted,
        _do,
        terms,
    )


async def _do(session: Session, place: Place, ids: Sequence[int]) -> int:
    return len(await store.dismiss(session, place, ids))
