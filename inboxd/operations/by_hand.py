"""Emits an event, sends a command, or runs a schedule once, for an operator.

Promises that the audit entry has no payload, and that a row with a given uuid is written once.
Known limit: a schedule runs in addition to its times, even while it is paused.
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
    """A conflicting dedup key makes a dead letter. Raises UsageError; Conflict if it exists."""
    emits = kind == "event"
    table: wakeups.HotTable = "events" if emits else "commands"
    async with session.transaction():
        written = await (producing.emit if emits else producing.send)(session, entry)
        if written.duplicate:
            number = "settled" if written.id is None else f"number {written.id}"
            raise Conflict(
                f"this {kind} exists already ({number}, {written.uuid}); nothing was written"
            )
        word: audit.Audited = "emit" if emits else "send"
        target = f"{table} {written.id}"
        await audit.record(session, actor, word, target, reason, 1, to=entry.type)
        await wakeups.notify(session, table)
    return written


async def last_run(session: Session, name: str) -> datetime | None:
    """Raises UnknownName; Conflict if the schedule is not declared."""
    async with session.transaction():
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
    """Raises UnknownName; Conflict if no living worker declares it, or if it ran after `seen`."""
    async with session.transaction():
        row = await _held(session, name)
        if seen != "any" and row["last_at"] != seen:
            raise Conflict(
                f"the schedule {name!r} ran meanwhile, by its time or by another operator; nothing "
                "was sent: look at it again"
            )
        time: datetime = row["now"]
        await schedules.run_now(session, row, time)
        await audit.record(session, actor, "run", f"schedule {name}", reason, 1)
        table: wakeups.HotTable = "events" if row["kind"] == "event" else "commands"
        await wakeups.notify(session, table)
    return time


async def _held(session: Session, name: str) -> Row:
    row = await held_schedule(session, name)
    if row["undeclared_at"] is not None:
        raise Conflict(
            f"no living worker declares the schedule {name!r}; nothing was sent: run "
            "`inboxd declare`"
        )
    return row
