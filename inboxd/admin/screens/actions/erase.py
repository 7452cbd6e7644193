"""What is known of a tenant or an entity is erased: whom first, then what it would reach.

Promises that an erasure that takes longer than a request may says so: what was erased until then
stays erased and is counted in the audit, and is not looked at as if it were all.
Known limit: it begins with the oldest history each time, so what takes long to look through is for
the command line, and is refused here before it is confirmed.
"""

from typing import Final

import anyio
from starlette.datastructures import QueryParams

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
from inboxd.operations.erase import erase, subject_of, survey
from inboxd.store.erase import Subject

# Seconds in which history is looked at first, in which it is erased, and for the answer.
_LOOK: Final = 6.0
_ERASE: Final = 12.0
_ANSWER: Final = 2.0
_WHOM: Final = ("tenant", "entity_type", "entity_id")


def _subject(visit: ActionVisit) -> Subject | None:
    """Whom it is about; None: that is still to be said. Raises UsageError."""
    tenant, type_, id_ = (visit.about.get(name) or None for name in _WHOM)
    return subject_of(tenant, type_, id_) if tenant or type_ or id_ else None


async def _ask(visit: ActionVisit) -> Question:
    subject = _subject(visit)
    return _whom() if subject is None else await _whether(visit, subject)


def _whom() -> Question:
    """Whom it is about; nothing is done yet."""
    titles = (tell("Tenant"), tell("Entity type"), tell("Entity id"))
    whom = [AskedField(name=name, title=title) for name, title in zip(_WHOM, titles, strict=True)]
    return Question(
        title=tell("Erase"),
        button=tell("See what it would reach"),
        does=[
            tell(
                "What is known of a tenant or of an entity is erased: payloads, results, "
                "errors, keys, bodies."
            )
        ],
        follows=[
            tell(
                "Say first whom. The next page tells what it would reach, before anything is done."
            )
        ],
        fields=whom,
        command="inboxd erase --dry-run",
        parts={"looks": True},
    )


async def _whether(visit: ActionVisit, subject: Subject) -> Question:
    """What it would reach."""
    with anyio.move_on_after(_LOOK) as looked:
        about = await survey(visit.session, subject)
    if looked.cancelled_caught:
        raise Conflict(
            f"history is too long to be looked through here, which takes more than {_LOOK:g} s; "
            "nothing was done: `inboxd erase`, on a terminal, takes the time that it takes"
        )
    reach = tell(
        "It reaches rows in history: {settled}; dead letters: {dead}; rows that wait or run: "
        "{unsettled}.",
        settled=about.settled.total(),
        dead=about.dead.total(),
        unsettled=about.unsettled,
    )
    return Question(
        title=tell("Erase what is known of {whom}", whom=str(subject)),
        button=tell("Erase"),
        does=[
            tell("Payloads, results, errors, keys and bodies are erased. There is no way back."),
            tell(
                "It goes step by step: if it is cut off, what was erased stays erased and is in "
                "the audit, and erasing again goes on with the rest."
            ),
            reach,
        ],
        follows=[
            tell(
                "Ids, types, times, statuses and lineage stay, so that batches and stories stay "
                "whole."
            )
        ],
        fields=[
            AskedField(
                name="unsettled",
                title=tell("Cancel what waits and ask what runs to end, as well"),
                kind="check",
            ),
        ],
        command=_command(visit),
        final=True,
    )


async def _do(visit: ActionVisit) -> ActionTold:
    subject = _subject(visit)
    if subject is None:
        raise UsageError("whose rows are to be erased? Give a tenant, or an entity's type and id")
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
            "Cut off for taking too long, with at least {n} rows erased, which stay erased: erase "
            "again, here or on a terminal, for the rest.",
            n=reached,
        )
        return ActionTold(f"/act/erase?{visit.about}", told)
    told = tell(
        "Erased: {n} rows. Left, since they run or came meanwhile: {left}.",
        n=about.total,
        left=left,
    )
    return ActionTold("/audit", told)


def _deadline() -> float:
    """When an erasure is cut off: early enough for an answer within the time of the request."""
    return min(anyio.current_time() + _ERASE, anyio.current_effective_deadline() - _ANSWER)


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
