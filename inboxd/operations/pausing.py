"""Types, topics, queues and schedules that are left alone for a while.

Promises: those of the package; every worker obeys within a second, and what is leased ahead of its
start is given back. Known limit: what runs already goes on; the count of rows that wait stops at
ten thousand for each lane, and in the lines of a sequential or batch topic at as many that have
arrived and as many that are filed: of a type, those among them are counted.
"""

from typing import get_args

from inboxd.errors import Conflict, UnknownName, UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.operations.naming import nearest
from inboxd.store import controls as store
from inboxd.store import listing, schedules, topics
from inboxd.store import operations as audit
from inboxd.store.controls import Kind
from inboxd.store.session import Session

_LONGEST = 255  # bytes: what the tables' columns for names hold


async def pause(
    session: Session, kind: Kind, name: str, *, actor: str, reason: str | None = None
) -> int:
    """Let workers leave it alone until `resume`; returns how many rows wait there now.

    Raises UsageError for what cannot be a name, UnknownName for a schedule that nobody declared,
    and Conflict when it is paused already.
    """
    _check(kind, name)
    async with session.connection.transaction():
        if kind == "schedule" and not await schedules.exists(session, name):
            raise UnknownName(
                f"there is no schedule {name!r}{await nearest(session, 'schedule', name)}; "
                "`inboxd schedules list` has their names"
            )
        if not await store.pause(session, kind, name, actor, reason):
            raise Conflict(
                f"{kind} {name!r} is paused already: `inboxd paused` says since when and by whom"
            )
        waiting = await _waiting(session, kind, name)
        await audit.record(session, actor, "pause", f"{kind} {name}", reason, waiting)
    return waiting


async def resume(
    session: Session, kind: Kind, name: str, *, actor: str, reason: str | None = None
) -> int:
    """Let workers take it up again; returns how many rows wait there.

    Raises Conflict when it is not paused.
    """
    _check(kind, name)
    async with session.connection.transaction():
        if await store.resume(session, kind, name) is None:
            paused = [
                row["name"]
                for row in await store.read(session.connection, session.sql)
                if row["kind"] == kind
            ]
            raise Conflict(
                f"{kind} {name!r} is not paused{did_you_mean(name, paused)}; "
                "`inboxd paused` lists what is"
            )
        waiting = await _waiting(session, kind, name)
        await audit.record(session, actor, "resume", f"{kind} {name}", reason, waiting)
    return waiting


def _check(kind: str, name: str) -> None:
    if kind not in get_args(Kind):
        raise UsageError(f"{kind!r} cannot be paused: {', '.join(get_args(Kind))} can.")
    if not 1 <= len(name.encode(errors="replace")) <= _LONGEST or not name.isprintable():
        raise UsageError(f"{name!r} is no name for a {kind}: 1 to {_LONGEST} printable bytes.")


async def _waiting(session: Session, kind: Kind, name: str) -> int:
    """How many rows this holds back, in lanes and in lines."""
    total = 0
    for place, lane in (("events", "topic"), ("commands", "queue")):
        if kind in (lane, "type"):
            rows = await listing.lanes(session, place)  # type: ignore[arg-type]
            total += sum(row["pending"] for row in rows if row[kind] == name)
    if kind == "topic":
        total += await topics.waiting(session, [name])
    elif kind == "type":
        in_lines = [row["topic"] for row in await topics.lines(session)]
        total += await topics.waiting(session, in_lines, name)
    return total
