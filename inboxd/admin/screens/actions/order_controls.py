"""Pauses, resumes and ends ordered bulk actions.

Promises that visitors of certain tenants control only actions on their tenants' rows, and that an
action is only resumed if its pause still has the shown reason.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    NO_FORM,
    ActionTold,
    ActionVisit,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.roles import Role
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.operations.bulk_orders import OPEN

Control = Literal["pause", "resume", "abort"]
_CONTROLS: Final[Mapping[Control, tuple[Sentence, Sentence]]] = {
    "pause": (
        tell("Pause"),
        tell("It waits until it is resumed. Rows that are done stay done."),
    ),
    "resume": (
        tell("Resume"),
        tell("It continues with the remaining rows, even if its canary failed."),
    ),
    "abort": (
        tell("End it"),
        tell("Before its start, nothing is changed; after it, rows that are done stay done."),
    ),
}


def _number_of(visit: ActionVisit) -> int:
    number = read_row_id(visit.named("action"))
    if not isinstance(number, int):
        raise UsageError("action must be the number of a bulk action")
    return number


async def _ask_control(control: Control, visit: ActionVisit) -> Question:
    id_ = _number_of(visit)
    row = await operations.one_order(visit.session, id_, tenants=visit.visitor.tenants)
    operations.check_control(row, control)
    button, does = _CONTROLS[control]
    return Question(
        title=tell("Action {id}", id=id_),
        button=button,
        does=[does],
        follows=[tell("So far: {done} done, {left} left as they are.", **_so_far(row))],
        seen=f"{row['status']} {row['note'] or ''}",
        command=f"inboxd actions {control} {id_}",
        final=control == "abort",
    )


async def _do_control(control: Control, visit: ActionVisit) -> ActionTold:
    id_ = _number_of(visit)
    status, _, note = (visit.seen or "").partition(" ")
    if status not in OPEN:
        raise UsageError(NO_FORM)
    of = {"tenants": visit.visitor.tenants, **visit.by}
    if control == "pause":
        row = await operations.pause_order(visit.session, id_, **of)
    elif control == "resume":
        row = await operations.resume_order(visit.session, id_, seen=note, **of)
    else:
        row = await operations.abort_order(visit.session, id_, **of)
    if row["undone"]:
        told = tell("Undone: it had not begun, and nothing was changed.")
    elif control == "abort":
        told = tell("Ended: {done} done, {left} left as they are.", **_so_far(row))
    elif control == "pause":
        told = tell("Paused: {done} done, {left} left as they are.", **_so_far(row))
    else:
        told = tell("Resumed.")
    return ActionTold(f"/actions/{id_}", told)


def _so_far(row: Mapping[str, Any]) -> dict[str, str]:
    return {"done": f"{row['done']:,}", "left": f"{row['left_out']:,}"}


def _to_action(about: QueryParams) -> str:
    text = about.get("action", "")
    return f"/actions/{text}" if text.isdecimal() else "/actions"


def _control(control: Control, role: Role) -> ScreenAction:
    return ScreenAction(
        path=f"/act/action/{control}",
        ask=partial(_ask_control, control),
        do=partial(_do_control, control),
        back=_to_action,
        role=role,
        for_tenants=True,
    )


ACTIONS: Final = (
    # Every operator who sees an action go wrong may stop it.
    _control("pause", Role.OPERATOR),
    _control("resume", Role.ADMIN),
    _control("abort", Role.OPERATOR),
)
