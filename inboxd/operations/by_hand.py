"""What an operator has done at once by hand: a schedule run.

Promises that each run is in the audit, in the transaction that does it.
Known limit: a schedule is run besides its times, and also while it is paused.
"""

from datetime import datetime
from typing import Literal

from inboxd.errors import Conflict
from inboxd.operations.schedules import held_schedule
from inboxd.store import operations as audit
from inboxd.store import schedules, wakeups
from inboxd.store.connections import Row
from inboxd.store.session import Session


async def run_schedule(
    session: Session,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | Literal["any"] | None = "any",
) -> datetime:
    """Send for a schedule now, once, besides its times; the time of the run.

    seen: when it was run last, as somebody saw it. Raises UnknownName, and Conflict for one that no
    living worker declares, or that was run meanwhile.
    """
    async with session.connection.transaction():
        row = await _held(session, name)
        if seen != "any" and row["last_at"] != seen:
            raise Conflict(
                f"the schedule {name!r} was run meanwhile, by its time or by somebody else; "
                "nothing was sent: look again how things are"
            )
        time: datetime = row["now"]
        await schedules.run_now(session, row, time)
        await audit.record(session, actor, "run", f"schedule {name}", reason, 1)
        table: wakeups.HotTable = "events" if row["kind"] == "event" else "commands"
        await wakeups.notify(session.connection, session.sql, table)
    return time


async def _held(session: Session, name: str) -> Row:
    row = await held_schedule(session, name)
    if row["undeclared_at"] is not None:
        raise Conflict(
            f"no living worker declares the schedule {name!r}; nothing was sent: `inboxd declare`"
        )
    return row
