"""Schedules that operators add, change and remove while workers run.

Promises that the audit has no payload, that schedules which workers declare do not change, and that
a changed schedule keeps its next run unless its times change.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, fields, replace
from datetime import datetime
from typing import Any, Final, Literal

from inboxd.api.schedules import Schedule, ScheduleDeclaration, check
from inboxd.errors import Conflict, UnknownName, UsageError
from inboxd.model import checks
from inboxd.operations.names import Named, check_declared, nearest
from inboxd.store import operations as audit
from inboxd.store import schedules
from inboxd.store.connections import Row
from inboxd.store.session import Session

# Fields that a change may clear, with their values after that.
CLEARED: Final[Mapping[str, object]] = {
    "payload": "{}",
    "topic": None,
    "queue": None,
    "priority": 0,
    "expires_after": None,
    "tenant": None,
    "time_field": None,
    "title": None,
    "description": None,
}


def new_schedule(
    name: str, cron: str, kind: Literal["event", "command"], type_: str, said: Mapping[str, object]
) -> Schedule:
    """said: fields of `Schedule`, and `topic` or `queue`. Raises UsageError."""
    schedule = Schedule(
        name=name,
        source="",
        cron=cron,
        zone="UTC",
        missed="once",
        kind=kind,
        type=type_,
        schema_version=1,
        lane=None,
        priority=0,
        tenant=None,
        payload="{}",
        time_field=None,
    )
    return changed(schedule, said)


async def check_names(
    session: Session,
    schedule: Schedule,
    also: Callable[[Named], Collection[str]],
    before: Schedule | None = None,
) -> None:
    """before: the schedule before a change: only changed names are checked. Raises UnknownName."""
    lane: Named = "topic" if schedule.kind == "event" else "queue"
    type_: Named = "event type" if schedule.kind == "event" else "command type"
    if before is None:
        await check_declared(session, type_, schedule.type)
    if schedule.lane and (before is None or before.lane != schedule.lane):
        await check_declared(session, lane, schedule.lane, also=also(lane))


async def add_schedule(
    session: Session, schedule: Schedule, *, actor: str, reason: str | None = None
) -> datetime:
    """Return its first run. Raises UsageError, and Conflict if the name exists."""
    schedule = replace(schedule, source=actor)
    check_schedule(schedule)
    async with session.transaction():
        next_at = await schedules.add(session, schedule)
        if next_at is None:
            raise Conflict(
                f"there is a schedule {schedule.name!r} already; `inboxd schedules list` shows it"
            )
        await _record(session, actor, "add", schedule, reason)
    return next_at


async def change_schedule(
    session: Session,
    name: str,
    changes: Mapping[str, object],
    *,
    actor: str,
    reason: str | None = None,
    seen: str | None = None,
) -> datetime:
    """Return its next run; the caller checks names. seen: the `digest` that the operator saw.

    Raises UsageError, UnknownName, and Conflict for a schedule that a worker declares, or that was
    changed meanwhile.
    """
    async with session.transaction():
        row = await _added(session, name, seen)
        schedule = changed(_schedule(row), changes)
        check_schedule(schedule)
        next_at = await schedules.change(session, row, schedule)
        await _record(session, actor, "change", schedule, reason)
    return next_at


async def remove_schedule(
    session: Session, name: str, *, actor: str, reason: str | None = None, seen: str | None = None
) -> None:
    """Rows that it has sent stay. Raises as `change_schedule`."""
    async with session.transaction():
        row = await _added(session, name, seen)
        await schedules.remove(session, row)
        await audit.record(session, actor, "remove", f"schedule {name}", reason, 1)


async def added_schedule(session: Session, name: str) -> Schedule:
    """Raises UnknownName; Conflict if a worker declares it."""
    async with session.transaction():
        return _schedule(await _added(session, name))


def digest(schedule: Schedule) -> str:
    """Hash all fields that a change can set; runs do not change it."""
    return hashlib.sha256(repr(astuple(schedule)).encode()).hexdigest()


async def held_schedule(session: Session, name: str) -> Row:
    """Lock a schedule until the transaction ends. Raises UnknownName."""
    row = await schedules.hold(session, name)
    if row is None:
        raise UnknownName(
            f"there is no schedule {name!r}{await nearest(session, 'schedule', name)}; "
            "`inboxd schedules list` has their names"
        )
    return row


def check_schedule(schedule: Schedule) -> None:
    """Raises UsageError; the type is not checked."""
    of_event = schedule.kind == "event"
    check(
        ScheduleDeclaration(
            name=schedule.name,
            source=schedule.source,
            cron=schedule.cron,
            zone=schedule.zone,
            missed=schedule.missed,
            event=schedule.type if of_event else None,
            command=None if of_event else schedule.type,
            topic=schedule.lane if of_event else None,
            queue=None if of_event else schedule.lane,
            priority=schedule.priority or None,
            expires_after=schedule.expires_after,
            tenant=schedule.tenant,
            title=schedule.title,
            description=schedule.description,
        )
    )
    checks.refuse(
        f"schema_version={schedule.schema_version}", checks.count(schedule.schema_version)
    )
    if schedule.time_field is not None and not schedule.payload.lstrip().startswith("{"):
        raise UsageError("time_field needs a payload that is an object.")


async def _added(session: Session, name: str, seen: str | None = None) -> Row:
    """Lock a schedule that was added by hand. Raises UnknownName, and Conflict."""
    row = await held_schedule(session, name)
    if row["added_at"] is None:
        raise Conflict(
            f"the schedule {name!r} is declared by {row['source']}: change it there, or by the "
            f'section [schedules."{name}"] of the settings; it can be paused while workers run'
        )
    if seen is not None and digest(_schedule(row)) != seen:
        raise Conflict(
            f"the schedule {name!r} was changed meanwhile; nothing was changed: look at it again"
        )
    return row


def changed(schedule: Schedule, said: Mapping[str, object]) -> Schedule:
    """Raises UsageError for a lane of the other kind."""
    lane, other = ("topic", "queue") if schedule.kind == "event" else ("queue", "topic")
    if other in said:
        raise UsageError("an event has a topic, a command has a queue.")
    changes: dict[str, Any] = {"lane" if name == lane else name: said[name] for name in said}
    return replace(schedule, **changes)


def _schedule(row: Row) -> Schedule:
    given: dict[str, Any] = {each.name: row[each.name] for each in fields(Schedule)}
    return Schedule(**given)


async def _record(
    session: Session, actor: str, action: audit.Audited, schedule: Schedule, reason: str | None
) -> None:
    times, target = f"{schedule.cron} {schedule.zone}", f"schedule {schedule.name}"
    await audit.record(session, actor, action, target, reason, 1, to=times)
