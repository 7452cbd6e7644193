"""Edits a waiting command: its payload, its time, its priority.

Promises: an edit changes all fields or none, while the row is locked; the payload changes only
before the first attempt, since an attempt may have acted on it, and never in a delivery, which
carries a fact. The preview shows the exact values; the audit has no content of a payload. Known
limits: a unique key that was derived from the payload stays; a payload of more than `payloads.MOST`
bytes is not shown.
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
from inboxd.operations.held_rows import ANY, Done, ExpectedRows, RowAction, RowId, hold, seen_as
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
    """New values; None: the field stays. payload: JSON text."""

    payload: str | None = None
    run_at: datetime | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableCommand:
    """payload: None if it is not shown; kept: why it cannot be edited."""

    id: int
    type: str
    run_at: datetime
    priority: int
    payload: str | None
    kept: PayloadKept | None
    seen: str


@dataclass(frozen=True, slots=True)
class EditedField:
    """None stands for a payload too large to show."""

    field: str
    before: object
    after: object


async def _nothing(*_: object) -> Done:
    return Done(())


_EDIT: Final = RowAction(
    "edit",
    "edited",
    (Status.PENDING, Status.WAITING),
    _nothing,
    hint=": `inboxd commands cancel` stops a running command, `inboxd commands replay-with` "
    "replays a dead letter with another payload; a command that has ended must be sent anew",
)


async def editable(session: Session, id: RowId, expected: ExpectedRows = ANY) -> EditableCommand:
    """Raises NotFound, and Conflict if it is not waiting."""
    async with session.transaction():
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
    """Raises UsageError, NotFound; Conflict if it has started, changed, or has the values."""
    async with session.transaction():
        changes = await _edit(session, id, wanted, expected, actor, reason)
        if not changes:
            raise Conflict(f"command {id} has these values already; nothing was changed")
    return changes


async def preview_edit(
    session: Session, id: RowId, wanted: CommandEdit, expected: ExpectedRows = ANY
) -> tuple[EditedField, ...]:
    """Make the change and roll it back. Raises as `edit_command`."""
    transaction = session.transaction()
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
    _check(wanted)  # after the lock, so that a conflict with another edit is reported first
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
    to = ", ".join(_audited(each) for each in changes)
    await store.record(session, actor, "edit", f"commands {number}", reason, 1, to=to)
    await wakeups.notify(session, "commands")
    return changes


def _check(wanted: CommandEdit) -> None:
    if wanted == CommandEdit():
        raise UsageError("the edit has no change: give a payload, a time or a priority")
    if wanted.payload is not None:
        check_json(wanted.payload)
    if wanted.run_at is not None:
        checks.refuse(f"the time {wanted.run_at}", checks.time(wanted.run_at))
    if wanted.priority is not None:
        checks.refuse(f"priority {wanted.priority}", checks.small(wanted.priority))


async def _state(session: Session, id: int, *, payload: bool) -> dict[str, Any]:
    """payload: None above `MOST` bytes. Raises DatabaseError for a role that cannot read it."""
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
            f"command {id} had an attempt already, which may have acted on its payload, so the "
            "payload cannot change; nothing was changed: cancel the command and send another, or, "
            f"once it is a dead letter, use `inboxd commands replay-with {id}`"
        )
    if kept == PayloadKept.DELIVERY:
        raise Conflict(
            f"command {id} is a delivery of a fact, so its payload cannot change; nothing was "
            "changed: cancel it, or send another webhook to the endpoint"
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


def _audited(change: EditedField) -> str:
    """The content of a payload is left out."""
    if change.field == "payload":
        return "another payload"
    if isinstance(change.after, datetime):
        return f"{change.after.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return f"priority {change.after}"
