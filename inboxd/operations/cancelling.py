"""Commands that shall not run, or not any further.

Promises: those of the package. Known limit: a running command is only asked to end. Its worker
hears it with its next heartbeat, and a command that ends before that has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.model.lifecycle import Status
from inboxd.operations.rows import RowId, hold, record, refuse
from inboxd.store import operations as store
from inboxd.store import wakeups
from inboxd.store.session import Session

_CANCELLABLE = (Status.PENDING, Status.WAITING, Status.RUNNING)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The ids of commands that were cancelled, and of those whose worker was asked to end them."""

    at_once: tuple[int, ...]
    requested: tuple[int, ...]


async def cancel(
    session: Session, ids: Sequence[RowId], *, actor: str, reason: str | None = None
) -> Cancelled:
    """End commands that have not ended: at once, or by their worker when they run.

    ids: row numbers and uuids, mixed. Raises NotFound, or Conflict when one of them has ended;
    then nothing is changed.
    """
    async with session.connection.transaction():
        rows = await hold(session, "commands", ids)
        refuse("commands", rows, "cancelled", _CANCELLABLE)
        held = [row["id"] for row in rows]
        done = Cancelled(
            at_once=tuple(await store.cancel(session, held)),
            requested=tuple(await store.request_cancel(session, held)),
        )
        await record(session, "commands", "cancel", done.at_once + done.requested, actor, reason)
        await wakeups.notify(session.connection, session.sql, "commands")
    return done
