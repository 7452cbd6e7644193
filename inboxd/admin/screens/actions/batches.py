"""Cancels and closes batches, and resumes workflows from their dead letters.

Promises that workers end the members that this request has no time for, and resume a workflow with
any number of dead letters; and that cancelling a batch with more than `TYPED_FROM` commands is
confirmed by typing their number, and cancelling a batch with nested batches by typing a word, since
their commands are not counted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.bulk import (
    TYPED_FROM,
    ask_for_all,
    check_number,
    order_all,
    told_number,
    typed_number,
)
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.actions.rows import released
from inboxd.model.row_id import read_row_id
from inboxd.operations import BatchEnded, OthersTouched, Selection
from inboxd.operations.batch_details import SHOWN

# To end members in the request itself.
_SECONDS: Final = 5.0


def _id(visit: ActionVisit) -> int | UUID:
    return read_row_id(visit.named("id"))


def _title(row: Mapping[str, Any]) -> Sentence:
    name = f"{row['id']} ({row['name']})" if row["name"] else row["id"]
    if row["kind"] == "workflow":
        return tell("Workflow {name}", name=name)
    return tell("Batch {name}", name=name)


def _group(row: Mapping[str, Any]) -> str:
    return "workflows" if row["kind"] == "workflow" else "batches"


async def _ask_cancel(visit: ActionVisit) -> Question:
    row = await operations.batch_details(visit.session, _id(visit))
    operations.check_cancel(row)
    unsettled = await _unsettled(visit, row)
    return Question(
        title=_title(row),
        button=tell("Cancel"),
        does=[
            tell("Commands that have not started end at once and never run."),
            tell("Running commands are asked to stop; dead letters stay as they are."),
            _told_unsettled(unsettled),
        ],
        follows=list(released("cancel", _waiting(row))),
        fields=list(typed_number(visit.typed, unsettled.count, whole=not unsettled.more)),
        seen=str(unsettled.count) if unsettled.count > TYPED_FROM else "",
        command=f"inboxd {_group(row)} cancel {row['id']}",
        final=True,
    )


async def _do_cancel(visit: ActionVisit) -> ActionTold:
    row = await operations.batch_details(visit.session, _id(visit))
    unsettled = await _unsettled(visit, row)
    if unsettled.more:
        check_number(visit.typed, unsettled.count, whole=False)
    elif row["unsettled"] > TYPED_FROM:
        # The number that the form showed: it falls while commands end. A number that has grown is
        # asked for again.
        shown = visit.seen_number if visit.seen else 0
        if not TYPED_FROM < row["unsettled"] <= shown:
            shown = row["unsettled"]
        check_number(visit.typed, shown, whole=True)
    done = await operations.cancel_batch(visit.session, _id(visit), within=_SECONDS, **visit.by)
    told = tell(
        "Cancelled: {name}. Commands that had not ended: {n}.",
        name=_name(done),
        n=told_number(OthersTouched(done.unsettled, unsettled.more)),
    )
    return _told(done, told)


async def _unsettled(visit: ActionVisit, row: Mapping[str, Any]) -> OthersTouched:
    """more: those in nested batches are not counted."""
    nested = await operations.has_batches(visit.session, row["id"])
    return OthersTouched(row["unsettled"], nested)


def _told_unsettled(unsettled: OthersTouched) -> Sentence:
    if unsettled.more:
        return tell(
            "Commands that have not ended: at least {n}. A batch in it counts as one here.",
            n=f"{unsettled.count:,}",
        )
    return tell("Commands that have not ended: {n}.", n=f"{unsettled.count:,}")


def _waiting(row: Mapping[str, Any]) -> OthersTouched:
    waiting = len(row["waiting"])
    return OthersTouched(waiting, waiting >= SHOWN)


async def _ask_close(visit: ActionVisit) -> Question:
    row = await operations.batch_details(visit.session, _id(visit))
    operations.check_close(row)
    waiting = _waiting(row)
    follows = [tell("A producer or handler that still adds commands to it gets an error.")]
    if waiting.count:
        follows.append(
            tell(
                "When it ends, rows that wait for it go on, such as its next command: {n}.",
                n=told_number(waiting),
            )
        )
    if not row["unsettled"]:
        follows.append(tell("Nothing in it is left: it ends at once."))
    return Question(
        title=_title(row),
        button=tell("Close"),
        does=[
            tell("It takes no more commands, and ends when those in it have ended."),
            _told_unsettled(await _unsettled(visit, row)),
        ],
        follows=follows,
        command=f"inboxd batches close {row['id']}",
        final=True,
    )


async def _do_close(visit: ActionVisit) -> ActionTold:
    done = await operations.close_batch(visit.session, _id(visit), within=_SECONDS, **visit.by)
    told = tell(
        "Closed: {name}. Commands that have not ended: {n}.",
        name=_name(done),
        n=f"{done.unsettled:,}",
    )
    return _told(done, told)


def _name(done: BatchEnded) -> str:
    return f"{done.id} {done.name}".rstrip()


def _told(done: BatchEnded, sentence: Sentence) -> ActionTold:
    return ActionTold(f"/batches/{done.id}", sentence)


async def _ask_resume(visit: ActionVisit) -> Question:
    id_ = _id(visit)
    await operations.resumable(visit.session, id_)
    row = await operations.batch_details(visit.session, id_, "workflow")
    wanted, command = Selection(batch=row["id"]), f"inboxd workflows resume {row['id']}"
    asked = await ask_for_all("commands", "replay", visit, wanted, command)
    return replace(
        asked,
        title=_title(row),
        button=tell("Resume"),
        does=[
            tell("Its dead letters run again: {n}.", n=asked.title.words["n"]),
            *asked.does,
        ],
        follows=[
            tell("Steps that wait for them follow when they have succeeded."),
            *asked.follows,
        ],
    )


async def _do_resume(visit: ActionVisit) -> ActionTold:
    id_ = _id(visit)
    await operations.resumable(visit.session, id_)
    return await order_all("commands", "replay", visit, Selection(batch=id_))


def _back(about: QueryParams) -> str:
    return f"/batches/{about.get('id', '')}"


ACTIONS: Final = (
    ScreenAction(path="/act/batch/cancel", ask=_ask_cancel, do=_do_cancel, back=_back),
    ScreenAction(path="/act/batch/close", ask=_ask_close, do=_do_close, back=_back),
    ScreenAction(path="/act/workflow/resume", ask=_ask_resume, do=_do_resume, back=_back),
)
