"""Replays a command with another payload: it shows the changes first, and asks for confirmation.

Promises: both payloads are shown exactly as they are stored; the audit has the view, if the
settings ask for that. Known limits: not for events, which are facts, nor for commands with an
ordering key. A payload with hidden parts can only be replaced on a terminal: the form would store
the payload that it shows.
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
from inboxd.admin.screens.actions.rows import doubts_of, follows_of
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.model.difference import difference
from inboxd.model.row_id import read_row_id
from inboxd.operations.payloads import MOST, payload_as_stored, payload_text

# A form may encode each byte of the payload in three.
MOST_BODY: Final = 3 * MOST + 16 * 1024


async def hides_some_of(visit: ActionVisit, kind: str, type_: str, payload: str) -> bool:
    redaction = await redaction_of(visit.session, visit.settings.admin, kind, [type_])
    return redaction.hides_type(type_) or redaction.hides_some([payload])


async def note_look(visit: ActionVisit, target: str) -> None:
    """The audit entry comes before the payload is shown."""
    if visit.settings.admin.audit_payloads:
        await operations.viewed(visit.session, target, actor=visit.visitor.actor)


async def _payload(visit: ActionVisit, id_: int, type_: str) -> str:
    """Write the audit entry first; raise Conflict if a part is hidden."""
    text = await payload_text(visit.session, id_)
    if await hides_some_of(visit, "command", type_, text):
        raise Conflict(
            f"a part of the payload of command {id_} is hidden on the screens by redact_keys or "
            f"hidden_types of [admin], or by its handler: on a terminal, run `{_command(id_)}`"
        )
    await note_look(visit, f"commands {id_}")
    return text


async def _typed(visit: ActionVisit, typed: str | None) -> str | None:
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
            f"command {id_} has an ordering key, so it runs again in its own place with its own "
            "payload: replay it as it is, or send another command"
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
        button=tell("Show the changes") if new is None else tell("Replay with this payload"),
        does=[
            tell(
                "A new row with the payload below runs now. It replaces the old row in "
                "batches and for rows that wait for it."
            ),
            tell("The old row moves to history with its own payload and its errors."),
        ],
        follows=list(follows_of("replay", found.follows)) if found.follows else [],
        doubts=list(doubts_of(found.follows)) if found.follows else [],
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
            f"the payload has more than {MOST // 1024} kB, the limit of this form: on a terminal, "
            f"run `{_command(visit.named('id'))}`"
        )
        raise RequestRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    await payload_as_stored(visit.session, payload)  # raises UsageError for an invalid payload
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
    """It proves that the changes of exactly this payload were shown."""
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
