"""A command that waits is edited where that is safe: its payload, its time, its priority.

Promises: all that is wanted is changed or nothing, while the row is held, so that it has not begun;
its payload only as long as no worker has had it, since what was begun may rest on it, and never
that of a delivery, which carries what has happened. What is shown before is what would be written,
to the last digit; the audit says which fields were changed to what, and of a payload only that.
Known limits: a unique key that was made of the payload stays as it is. Payloads of more than
`payloads.MOST` bytes are edited, and not shown.
*See:* `operations/rows.py`, by which a dead letter is replayed with another payload.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from inboxd.errors import Conflict, UsageError
from inboxd.model import checks
from inboxd.model.endpoints import QUEUE
from inboxd.model.json_text import check_json, indented
from inboxd.model.lifecycle import Status
from inboxd.operations.held_rows import ANY, Deed, Done, ExpectedRows, RowId, hold, seen_as
from inboxd.operations.payloads import MOST
from inboxd.store import operations as store
from inboxd.store import payloads, wakeups
from inboxd.store.connections import Row
from inboxd.store.session import Session


class PayloadKept(StrEnum):
    """Why a payload cannot be edited."""

    BEGUN = "begun"
    DELIVERY = "delivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEdit:
    """What is wanted; None: it stays. payload: JSON text."""

    payload: str | None = None
    run_at: datetime | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableCommand:
    """A command that waits, as it is. payload: None: it is not shown; kept: it cannot be edited."""

    id: int
    type: str
    run_at: datetime
    priority: int
    payload: str | None
    kept: PayloadKept | None
    seen: str


@dataclass(frozen=True, slots=True)
class EditedField:
    """A field: payload, run_at, priority. Of a payload that is too large to show both are None."""

    field: str
    before: object
    after: object


async def _nothing(*_: object) -> Done:
    return Done(())


_EDIT: Final = Deed(
    "edit",
    "edited",
    (Status.PENDING, Status.WAITING),
    _nothing,
    hint=": what runs is ended by `inboxd commands cancel`; a dead letter is replayed with another "
    "payload by `inboxd commands replay-with`; what has ended is sent anew",
)


async def editable(session: Session, id: RowId, expected: ExpectedRows = ANY) -> EditableCommand:
    """A command as it may be edited. Raises NotFound, and Conflict for one that does not wait."""
    async with session.connection.transaction():
        (row,) = await hold(session, "commands", [id], _EDIT, expected)
        found = await _state(session, row["id"], payload=True)
    return EditableCommand(
        id=row["id"],
        type=found["type"],
        run_at=found["run_at"],
        priority=found["priority"],
        payload=found["payload"],
        kept=_kept(row, found),
        seen=seen_as([row]),
    )


async def edit_command(
    session: Session,
    id: RowId,
    wanted: CommandEdit,
    *,
    actor: str,
    reason: str | None = None,
    expected: ExpectedRows = ANY,
) -> tuple[EditedField, ...]:
    """Change a command that waits; returns what differs.

    Raises UsageError for what cannot be, NotFound, and Conflict when it has begun meanwhile, has
    changed since it was seen, or is so already; then nothing is changed.
    """
    async with session.connection.transaction():
        changes = await _edit(session, id, wanted, expected, actor, reason)
        if not changes:
            raise Conflict(f"command {id} is so already; nothing was changed")
    return changes


async def preview_edit(
    session: Session, id: RowId, wanted: CommandEdit, expected: ExpectedRows = ANY
) -> tuple[EditedField, ...]:
    """What would differ: it is done and undone. Raises as `edit_command` does, but for none."""
    transaction = session.connection.transaction()
    await transaction.start()
    try:
        return await _edit(session, id, wanted, expected, "", None)
    finally:
        await transaction.rollback()


async def _edit(
    session: Session,
    id: RowId,
    wanted: CommandEdit,
    expected: ExpectedRows,
    actor: str,
    reason: str | None,
) -> tuple[EditedField, ...]:
    (row,) = await hold(session, "commands", [id], _EDIT, expected)
    _check(wanted)  # afterwards: of one that was edited meanwhile it is told that it was
    number, payload = row["id"], wanted.payload
    before = await _state(session, number, payload=payload is not None)
    if payload is not None:
        _refuse_kept(number, _kept(row, before))
        if not await store.edit_payload(session, number, payload):
            _refuse_kept(number, PayloadKept.BEGUN)
    if wanted.run_at is not None:
        await store.reschedule(session, "commands", [number], wanted.run_at)
    if wanted.priority is not None:
        await store.reprioritize(session, [number], wanted.priority)
    after = await _state(session, number, payload=payload is not None)
    changes = tuple(_differing(wanted, before, after))
    to = ", ".join(_told(each) for each in changes)
    await store.record(session, actor, "edit", f"commands {number}", reason, 1, to=to)
    await wakeups.notify(session.connection, session.sql, "commands")
    return changes


def _check(wanted: CommandEdit) -> None:
    if wanted == CommandEdit():
        raise UsageError("nothing is to be changed: give a payload, a time or a priority")
    if wanted.payload is not None:
        check_json(wanted.payload)
    if wanted.run_at is not None:
        checks.refuse(f"the time {wanted.run_at}", checks.time(wanted.run_at))
    if wanted.priority is not None:
        checks.refuse(f"priority {wanted.priority}", checks.small(wanted.priority))


async def _state(session: Session, id: int, *, payload: bool) -> dict[str, Any]:
    """run_at, priority, queue; and the payload as it is stored, None: it is larger, or not asked.

    Raises DatabaseError for a role that may not read payloads.
    """
    found: dict[str, Any] = {**await store.edited(session, id), "payload": None}
    if payload:
        session.refuse_withheld("payloads")
        row = await payloads.of_command(session, id, MOST)
        if row is not None and row["text"] is not None:
            found["payload"] = indented(row["text"], MOST)
    return found


def _kept(row: Row, found: Mapping[str, Any]) -> PayloadKept | None:
    if row["begun"]:
        return PayloadKept.BEGUN
    return PayloadKept.DELIVERY if found["queue"].startswith(QUEUE) else None


def _refuse_kept(id: int, kept: PayloadKept | None) -> None:
    if kept == PayloadKept.BEGUN:
        raise Conflict(
            f"a worker has had command {id} before, and what it did may rest on its payload, which "
            "stays as it is; nothing was changed: cancel it and send another, or, once it is a "
            f"dead letter, `inboxd commands replay-with {id}`"
        )
    if kept == PayloadKept.DELIVERY:
        raise Conflict(
            f"command {id} is a delivery of what has happened, so its payload stays as it is; "
            "nothing was changed: cancel it, or send something else to the endpoint"
        )


def _differing(
    wanted: CommandEdit, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[EditedField]:
    if wanted.payload is not None:
        old, new = before["payload"], after["payload"]
        if old is None or new is None:
            yield EditedField("payload", None, None)
        elif old != new:
            yield EditedField("payload", old, new)
    for name in ("run_at", "priority"):
        if before[name] != after[name]:
            yield EditedField(name, before[name], after[name])


def _told(change: EditedField) -> str:
    """As the audit has it: never what a payload says."""
    if change.field == "payload":
        return "another payload"
    if isinstance(change.after, datetime):
        return f"{change.after.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"priority {change.after}"
