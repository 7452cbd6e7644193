"""Commands that shall not run, or not any further.

Promises: those of the package. Known limit: a running command is only asked to end. Its worker
hears it with its next heartbeat, and a command that ends before that has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.operations.many import STATUSES, Selection, Terms, in_pages
from inboxd.operations.rows import RowId, hold, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session
from inboxd.store.wakeups import Place


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The ids of commands that were cancelled, and of those whose worker was asked to end them."""

    at_once: tuple[int, ...]
    requested: tuple[int, ...]


async def cancel(
    session: Session, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> Cancelled:
    """End commands that have not ended: at once, or by their worker when they run; all or none.

    ids: row numbers and uuids, mixed. Raises NotFound, or Conflict when one of them has ended;
    then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await hold(session, "commands", ids)
        refuse("commands", rows, "cancelled", STATUSES["cancel"])
        done = await _do(session, [row["id"] for row in rows])
        await record(session, "commands", "cancel", done.at_once + done.requested, actor, reason)
        await wakeups.notify(session.connection, session.sql, "commands")
    return done


async def cancel_matching(
    session: Session,
    wanted: Selection,
    terms: Terms,
) -> int:
    """End all commands that match and have not ended; returns how many, those asked included."""

    async def do(session: Session, _: Place, ids: Sequence[int]) -> int:
        done = await _do(session, ids)
        return len(done.at_once) + len(done.requested)

    return await in_pages(
        session,
        "commands",
        "cancel",
        wanted,
        do,
        terms,
    )


async def _do(session: Session, ids: Sequence[int]) -> Cancelled:
    return Cancelled(
        at_once=tuple(await store.cancel(session, ids)),
        requested=tuple(await store.request_cancel(session, ids)),
    )
