"""Erases the data of a tenant or an entity: first it asks of whom, then it shows the rows.

Promises: an erasure of more rows than were shown is refused, and more than `TYPED_FROM` rows are
confirmed by typing their number; an erasure that runs out of time says so, and its erased rows are
in the audit. Known limit: a long history is left to the command line, since each erasure starts
with its oldest part.
"""

from typing import Final

import anyio
from starlette.datastructures import QueryParams

from inboxd.admin.answers import detail_of
from inboxd.admin.screens.actions.bulk import check_number, typed_number
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    tell,
)
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.operations import Terms
from inboxd.operations.erase import About, erase, subject_of, survey
from inboxd.store.erase import Subject

# For counting the rows before the confirmation; for the erasure; and then for the answer.
_COUNT_SECONDS: Final = 6.0
_ERASE_SECONDS: Final = 12.0
_ANSWER_SECONDS: Final = 2.0
_WHOM: Final = ("tenant", "entity_type", "entity_id")


def _subject(visit: ActionVisit) -> Subject | None:
    """None: the address names no tenant and no entity yet. Raises UsageError."""
    tenant, type_, id_ = (visit.about.get(name) or None for name in _WHOM)
    return subject_of(tenant, type_, id_) if tenant or type_ or id_ else None


async def _ask(visit: ActionVisit) -> Question:
    try:
        subject = _subject(visit)
    except UsageError as error:
        return _whom(visit, detail_of(error))
    return _whom(visit) if subject is None else await _whether(visit, subject)


def _whom(visit: ActionVisit, refused: str | None = None) -> Question:
    titles = (tell("Tenant"), tell("Entity type"), tell("Entity id"))
    whom = [
        AskedField(name=name, title=title, value=visit.about.get(name, ""))
        for name, title in zip(_WHOM, titles, strict=True)
    ]
    return Question(
        title=tell("Erase"),
        button=tell("Count the rows"),
        does=[
            tell(
                "The data of a tenant or an entity is erased: payloads, results, errors, "
                "keys, bodies."
            )
        ],
        follows=[
            tell(
                "First give a tenant or an entity. The next page shows how many rows that "
                "has, before anything is erased."
            )
        ],
        fields=whom,
        command="inboxd erase --dry-run",
        parts={"looks": True, "refused": refused},
    )


async def _whether(visit: ActionVisit, subject: Subject) -> Question:
    about = await _counted(visit, subject)
    reach = tell(
        "Rows in history: {settled}; dead letters: {dead}; rows that wait or run: {unsettled}.",
        settled=about.settled.total(),
        dead=about.dead.total(),
        unsettled=about.unsettled,
    )
    return Question(
        title=tell("Erase the data of {whom}", whom=str(subject)),
        button=tell("Erase"),
        does=[
            tell("Payloads, results, errors, keys and bodies are erased. This cannot be undone."),
            tell(
                "The erasure runs in steps. If it is stopped, the rows erased so far stay "
                "erased and are in the audit; erase again for the rest."
            ),
            reach,
        ],
        follows=[
            tell(
                "Ids, types, times, statuses and lineage stay, so that batches and stories "
                "stay complete."
            ),
            tell(
                "Dead letters are dismissed: their batches count them as cancelled, and rows that "
                "need their success end as skipped."
            ),
            tell(
                "Webhooks that brought the events lose their body, headers and address; events "
                "that are held are deleted if waiting rows are cancelled."
            ),
        ],
        fields=[
            AskedField(
                name="unsettled",
                title=tell("Also cancel waiting rows, and ask running ones to stop"),
                kind="check",
                value=visit.typed.get("unsettled", ""),
            ),
            *typed_number(visit.typed, about.total, whole=True),
        ],
        seen=str(about.total),
        command=_command(visit),
        final=True,
    )


async def _counted(visit: ActionVisit, subject: Subject) -> About:
    """Raises Conflict if counting takes too long."""
    with anyio.move_on_after(_COUNT_SECONDS) as looked:
        about = await survey(visit.session, subject)
    if looked.cancelled_caught:
        raise Conflict(
            "nothing was changed: counting the rows in history takes more than "
            f"{_COUNT_SECONDS:g} s; run `inboxd erase` on a terminal, which has no time limit"
        )
    return about


async def _do(visit: ActionVisit) -> ActionTold:
    subject = _subject(visit)
    if subject is None:
        raise UsageError("give a tenant, or the type and id of an entity, whose data is erased")
    shown = visit.seen_number
    check_number(visit.typed, shown, whole=True)
    if (now := (await _counted(visit, subject)).total) > shown:
        raise Conflict(
            f"there are {now:,} rows now, more than the {shown:,} that were shown; nothing was "
            "changed: look at them again"
        )
    terms = Terms(actor=visit.visitor.actor, reason=visit.reason)
    unsettled = visit.typed.get("unsettled") == "1"
    reached = 0

    def count(_: float, found: int) -> None:
        nonlocal reached
        reached = found

    with anyio.CancelScope(deadline=_deadline()) as cut:
        about, left = await erase(visit.session, subject, terms, unsettled=unsettled, on_step=count)
    if cut.cancelled_caught:
        told = tell(
            "The time ran out. At least {n} rows are erased and stay erased: erase again, "
            "here or on a terminal, for the rest.",
            n=reached,
        )
        return ActionTold(f"/act/erase?{visit.about}", told, "warning")
    told = tell(
        "Erased: {n} rows. Not erased, because they run or came meanwhile: {left}.",
        n=about.total,
        left=left,
    )
    return ActionTold("/audit", told, "warning" if left else "good")


def _deadline() -> float:
    """Early enough to answer within the time limit of the request."""
    return min(
        anyio.current_time() + _ERASE_SECONDS,
        anyio.current_effective_deadline() - _ANSWER_SECONDS,
    )


def _command(visit: ActionVisit) -> str:
    named = " ".join(
        f"--{name.replace('_', '-')} {shell(value)}"
        for name in _WHOM
        if (value := visit.about.get(name))
    )
    return f"inboxd erase {named}"


def _back(_: QueryParams) -> str:
    return "/audit"


ACTIONS: Final = (
    ScreenAction(
        path="/act/erase", ask=_ask, do=_do, back=_back, role=Role.ADMIN, reserved="erase"
    ),
)
