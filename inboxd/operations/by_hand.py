"""What an operator has done at once by hand: an event emitted, a command sent, a schedule run.

Promises that each is in the audit, in the transaction that does it, without the payload; and that
an entry whose uuid is given is written once, however often it is asked for.
Known limit: a schedule is run besides its times, and also while it is paused.
"""

from datetime import datetime
from typing import Literal

from inboxd.errors import Conflict
from inboxd.operations.schedules import held_schedule
from inboxd.store import operations as audit
from inboxd.store import producing, schedules, wakeups
from inboxd.store.connections import Row
from inboxd.store.producing import Entry, WrittenEntry
from inboxd.store.session import Session

Written = Literal["event", "command"]


async def write_by_hand(
    session: Session, kind: Written, entry: Entry, *, actor: str, reason: str | None = None
) -> WrittenEntry:
    """Emit an event or send a command. Raises UsageError, and Conflict for what was there already.

    What its dedup key makes a dead letter is written as one, and told.
    """
    emits = kind == "event"
    table: wakeups.HotTable = "events" if emits else "commands"
    async with session.connection.transaction():
        written = await (producing.emit if emits else producing.send)(session, entry)
        if written.duplicate:
            number = "settled" if written.id is None else f"number {written.id}"
            raise Conflict(
                f"this {kind} was there already ({number}, {written.uuid}); nothing was written"
            )
        word: audit.Audited = "emit" if emits else "send"
        target = f"{table} {written.id}"
        await audit.record(session, actor, word, target, reason, 1, to=entry.type)
        await wakeups.notify(session.connection, session.sql, table)
    return written


async def last_run(session: Session, name: str) -> datetime | None:
    """When a schedule was run last. Raises UnknownName, and Conflict for one that is undeclared."""
    async with session.connection.transaction():
        last: datetime | None = (await _held(session, name))["last_at"]
    return last


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
