"""A command replayed with another payload: first what differs is shown, then it is done.

Promises that the old row keeps its payload, that both are shown as they are stored, to the last
digit, and that whoever sees it is in the audit where that is wanted. Events are facts, so there is
no such action on them.
Known limits: for commands without an ordering key; the others run again in their own place. A
payload of which something is hidden is replaced on a terminal, since what is shown here is
what would be stored.
*See:* `operations/rows.py`.
"""

import hashlib
from http import HTTPStatus
from typing import Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.redaction import redaction_of
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    tell,
)
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.model.difference import difference
from inboxd.model.row_id import read_row_id
from inboxd.operations.payloads import MOST, payload_as_stored, payload_text

# A form may have three bytes for one.
MOST_BODY: Final = 3 * MOST + 16 * 1024


async def hides_some_of(visit: ActionVisit, kind: str, type_: str, payload: str) -> bool:
    """Whether something of a payload, JSON text, is not shown on the screens."""
    redaction = await redaction_of(visit.session, visit.settings.admin, kind, [type_])
    return redaction.hides_type(type_) or redaction.hides_some([payload])


async def note_look(visit: ActionVisit, target: str) -> None:
    """Write down who looks at the payload of this, before it is shown, where that is wanted."""
    if visit.settings.admin.audit_payloads:
        await operations.viewed(visit.session, target, actor=visit.visitor.actor)


async def _payload(visit: ActionVisit, id_: int, type_: str) -> str:
    """What the command holds, as a person reads it; who looks is written down first."""
    text = await payload_text(visit.session, id_)
    if await hides_some_of(visit, "command", type_, text):
        raise Conflict(
            f"of the payload of command {id_} something is hidden on the screens, as redact_keys "
            "or hidden_types of [admin], or its handler, want it: replace it on a terminal, "
            + _command(id_)
        )
    await note_look(visit, f"commands {id_}")
    return text


async def _typed(visit: ActionVisit, typed: str | None) -> str | None:
    """What was typed, as it would be stored; None: nothing, or what is refused elsewhere."""
    if typed is None:
        return None
    try:
        return await payload_as_stored(visit.session, typed)
    except UsageError:
        return None


async def _ask(visit: ActionVisit) -> Question:
    wanted = read_row_id(visit.named("id"))
    found = await operations.preview(
        visit.session, "commands", "replay", [wanted], settings=visit.settings
    )
    id_ = found.sample[0]["id"]
    if found.follows and found.follows.in_place:
        raise Conflict(
            f"command {id_} has an ordering key, so it runs again in its own place, with its own "
            "payload: replay it as it is, or send another"
        )
    old = await _payload(visit, id_, found.sample[0]["type"])
    typed = visit.typed.get("payload")
    new = await _typed(visit, typed)
    fields = [
        AskedField(
            name="payload",
            title=tell("Payload"),
            kind="json",
            value=old if typed is None else typed,
            required=True,
        )
    ]
    if new is not None and typed is not None:
        fields.append(
            AskedField(name="agreed", title=tell("Payload"), kind="hidden", value=_mark(typed))
        )
    return Question(
        title=tell("Command {id}", id=id_),
        button=tell("See what differs") if new is None else tell("Replay with this payload"),
        does=[
            tell(
                "A new row with the payload below runs now, and takes its place in batches and in "
                "what waits."
            ),
            tell("The old row goes to history, with its own payload and what went wrong."),
        ],
        fields=fields,
        seen=found.seen or "",
        command=_command(id_),
        template="confirm_payload.html",
        parts={
            "table": "commands",
            "count": 1,
            "difference": None if new is None else list(difference(old, new)),
        },
    )


async def _do(visit: ActionVisit) -> ActionTold | None:
    payload = visit.typed.get("payload", "")
    if len(payload.encode()) > MOST:
        detail = (
            f"this payload has more than {MOST // 1024} kB, which is more than a form holds: "
            f"use a terminal, {_command(visit.named('id'))}"
        )
        raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    await payload_as_stored(visit.session, payload)  # or it is refused
    if visit.typed.get("agreed") != _mark(payload):
        return None
    done = await operations.replay_with(
        visit.session,
        read_row_id(visit.named("id")),
        payload,
        expected=visit.expected,
        **visit.by,
    )
    old, new = done.ids[0], done.new_ids[0]
    told = tell("Replayed with another payload: {id} runs again as {new}.", id=old, new=new)
    return ActionTold(f"/commands/{new}", told)


def _command(id_: object) -> str:
    return f"inboxd commands replay-with {id_} @payload.json"


def _mark(payload: str) -> str:
    """By which it is known that what differs was shown for just this payload."""
    return hashlib.blake2b(payload.replace("\r\n", "\n").encode(), digest_size=12).hexdigest()


def _back(about: QueryParams) -> str:
    return f"/commands/{about.get('id', '')}"


ACTIONS: Final = (
    ScreenAction(
        path="/act/commands/replay-with",
        ask=_ask,
        do=_do,
        back=_back,
        role=Role.ADMIN,
        reserved="replay-with",
        most_body=MOST_BODY,
    ),
)
