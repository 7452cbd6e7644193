"""Edits a waiting command: it shows the changes first, and writes them after a confirmation.

Promises: changes are shown exactly as they would be written; a relative time becomes fixed when it
is shown; the audit has a viewed payload, if the settings ask for that. A payload with hidden parts
is not shown.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    Sentence,
    due_field,
    tell,
)
from inboxd.admin.screens.actions.payload import MOST_BODY, hides_some_of, note_look
from inboxd.admin.screens.roles import Role
from inboxd.errors import UsageError
from inboxd.model.difference import difference
from inboxd.model.moments import read_until
from inboxd.model.row_id import read_row_id
from inboxd.operations import CommandEdit, EditedField
from inboxd.operations.edits import EditableCommand, PayloadKept
from inboxd.operations.payloads import MOST, payload_as_stored

_KEPT: Final[Mapping[PayloadKept, Sentence]] = {
    PayloadKept.BEGUN: tell(
        "A worker has started it before and may have used its payload, so the payload "
        "stays as it is."
    ),
    PayloadKept.DELIVERY: tell("It is the delivery of a webhook, so its payload stays as it is."),
}


async def _ask(visit: ActionVisit) -> Question:
    found, hidden = await _found(visit)
    shown = _shown(found)
    if "payload" in shown:
        await note_look(visit, f"commands {found.id}")
    typed = {name: visit.typed.get(name, value) for name, value in shown.items()}
    changes = await _changes(visit, found, typed) if visit.typed else None
    fields = list(_fields(typed))
    if changes is not None:
        fields.append(
            AskedField(name="agreed", title=tell("Payload"), kind="hidden", value=_mark(typed))
        )
    payloads = [each for each in changes or () if each.field == "payload"]
    lines = [line for each in payloads for line in difference(str(each.before), str(each.after))]
    doubts = [_KEPT[found.kept]] if found.kept else []
    if hidden:
        doubts.append(tell("A part of its payload is hidden here: edit it on a terminal."))
    elif found.payload is None and not found.kept:
        doubts.append(tell("Its payload is larger than a form holds: edit it on a terminal."))
    return Question(
        title=tell("Command {id}", id=found.id),
        button=tell("Show the changes") if changes is None else tell("Edit"),
        does=[tell("It is waiting. Your changes apply when it runs.")],
        follows=[
            tell("Its unique key, its batch and the rows that wait for it stay as they are."),
            tell("If a worker starts it meanwhile, nothing is changed."),
        ],
        doubts=doubts,
        fields=fields,
        seen=found.seen,
        command=_command(found.id),
        template="confirm_edit.html",
        parts={
            "table": "commands",
            "count": 1,
            "changes": changes,
            "difference": lines,
        },
    )


async def _found(visit: ActionVisit) -> tuple[EditableCommand, bool]:
    """True: the payload is left out, since a part of it is hidden."""
    found = await operations.editable(visit.session, read_row_id(visit.named("id")))
    text = found.payload
    if text is None or not await hides_some_of(visit, "command", found.type, text):
        return found, False
    return replace(found, payload=None), True


def _shown(found: EditableCommand) -> dict[str, str]:
    shown = {"at": _moment(found.run_at), "priority": str(found.priority)}
    if found.payload is not None and not found.kept:
        shown["payload"] = found.payload
    return shown


def _fields(typed: Mapping[str, str]) -> list[AskedField]:
    fields = [
        due_field(typed["at"]),
        AskedField(
            name="priority",
            title=tell("Priority"),
            kind="number",
            hint="-32768 … 32767",
            value=typed["priority"],
        ),
    ]
    if "payload" in typed:
        fields.append(
            AskedField(name="payload", title=tell("Payload"), kind="json", value=typed["payload"])
        )
    return fields


async def _changes(
    visit: ActionVisit, found: EditableCommand, typed: dict[str, str]
) -> tuple[EditedField, ...] | None:
    """Fix a relative time in `typed`. None: the input is not valid, which the action reports."""
    try:
        wanted = _wanted(found, typed)
        if wanted.run_at is not None:
            typed["at"] = _moment(wanted.run_at)
        return await _preview(visit, found, wanted)
    except UsageError:
        return None


async def _preview(
    visit: ActionVisit, found: EditableCommand, wanted: CommandEdit
) -> tuple[EditedField, ...]:
    if wanted == CommandEdit():
        return ()
    if wanted.payload is not None:
        await payload_as_stored(visit.session, wanted.payload, "edit")
    return await operations.preview_edit(visit.session, found.id, wanted)


def _wanted(found: EditableCommand, typed: Mapping[str, str]) -> CommandEdit:
    """Only changed input counts. Raises UsageError."""
    new = {name: typed.get(name, value) for name, value in _shown(found).items()}
    at, priority, payload = new["at"].strip(), new["priority"].strip(), new.get("payload")
    same = payload is None or _plain(payload) == _plain(found.payload or "")
    try:
        number = int(priority) if priority else found.priority
    except ValueError:
        raise UsageError(
            f"{priority[:20]!r} is not a valid priority: give a whole number"
        ) from None
    return CommandEdit(
        payload=None if same else payload,
        run_at=None if at in ("", _moment(found.run_at)) else read_until(at, UTC),
        priority=None if number == found.priority else number,
    )


async def _do(visit: ActionVisit) -> ActionTold | None:
    payload = visit.typed.get("payload", "")
    id_ = read_row_id(visit.named("id"))
    if len(payload.encode()) > MOST:
        detail = (
            f"the payload has more than {MOST // 1024} kB, the limit of this form: on a terminal, "
            f"run `{_command(id_)}`"
        )
        raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    found, _ = await _found(visit)
    wanted = _wanted(found, visit.typed)
    await _preview(visit, found, wanted)  # raises UsageError, so that the form is shown again
    if visit.typed.get("agreed") != _mark(visit.typed):
        return None
    done = await operations.edit_command(
        visit.session, id_, wanted, expected=visit.expected, **visit.by
    )
    told = tell("Edited: {n} fields.", n=len(done))
    return ActionTold(f"/commands/{found.id}", told)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _plain(text: str) -> str:
    """A browser adds line ends of CR LF."""
    return text.replace("\r\n", "\n").strip()


def _mark(typed: Mapping[str, str]) -> str:
    """It proves that the changes of exactly this input were shown."""
    told = [_plain(typed.get(name, "")) for name in ("at", "priority", "payload")]
    return hashlib.blake2b("\0".join(told).encode(), digest_size=12).hexdigest()


def _command(id_: object) -> str:
    return f"inboxd commands edit {id_} --payload @payload.json --at 2h --priority 0"


def _back(about: QueryParams) -> str:
    return f"/commands/{about.get('id', '')}"


ACTIONS: Final = (
    ScreenAction(
        path="/act/commands/edit",
        ask=_ask,
        do=_do,
        back=_back,
        role=Role.ADMIN,
        reserved="edit",
        most_body=MOST_BODY,
    ),
)
