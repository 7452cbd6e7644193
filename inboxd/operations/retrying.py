"""Dead letters that run again.

Promises: those of the package. Known limit: all of the rows named are locked at once.
"""

from collections.abc import Sequence

from inboxd.model.lifecycle import Status
from inboxd.operations.rows import RowId, hold, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import Place


async def retry(
    session: Session, place: Place, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> tuple[int, ...]:
    """Let dead letters run again now, their attempts and crashes counted anew.

    ids: row numbers and uuids, mixed. Returns the rows' numbers. Raises NotFound, or Conflict when
    one of them is no dead letter; then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await hold(session, place, ids)
        refuse(place, rows, "retried", (Status.FAILED,))
        changed = tuple(await store.retry(session, place, [row["id"] for row in rows]))
        await record(session, place, "retry", changed, actor, reason)
        await wakeups.notify(session.connection, session.sql, place)
    return changed
