"""Emits an event or sends a command by hand.

Promises that a form writes one row, however often it is sent: it has the row's uuid.
"""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from starlette.datastructures import QueryParams

from inboxd import operations
from inboxd.admin.screens.actions.contract import (
    ActionTold,
    ActionVisit,
    AskedField,
    Question,
    ScreenAction,
    Sentence,
    tell,
)
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.roles import Role
from inboxd.errors import UsageError
from inboxd.model.json_text import check_json
from inboxd.operations.by_hand import Written, write_by_hand
from inboxd.store.producing import Entry

_MOST_BODY: Final = 2 * 1024 * 1024
_LANES: Final[Mapping[Written, str]] = {"event": "topic", "command": "queue"}
# Optional fields of the form, by the name of the field of `Entry`.
_MORE: Final[Mapping[Written, Mapping[str, Sentence]]] = {
    "event": {
        "lane": tell("Topic"),
        "tenant": tell("Tenant"),
        "ordering_key": tell("Ordering key"),
        "dedup_key": tell("Dedup key"),
    },
    "command": {
        "lane": tell("Queue"),
        "tenant": tell("Tenant"),
        "ordering_key": tell("Ordering key"),
        "unique_key": tell("Unique key"),
    },
}


async def _ask(kind: Written, visit: ActionVisit) -> Question:
    typed = {"type": visit.about.get("type", ""), **visit.typed}
    emits = kind == "event"
    fields = [
        AskedField(name="type", title=tell("Type"), value=typed["type"], required=True),
        AskedField(
            name="payload",
            title=tell("Payload"),
            kind="json",
            value=typed.get("payload", "{}"),
            required=True,
        ),
        *(
            AskedField(name=name, title=title, value=typed.get(name, ""))
            for name, title in _MORE[kind].items()
        ),
    ]
    verb = "emit" if emits else "send"
    return Question(
        title=tell("Emit an event") if emits else tell("Send a command"),
        button=tell("Emit") if emits else tell("Send"),
        does=[
            tell(
                "An event is written, as a producer would write it. It is a fact and cannot "
                "be taken back."
            )
            if emits
            else tell("A command is written, as a producer would write it.")
        ],
        follows=[tell("Its handlers run as soon as a worker takes it.")],
        fields=fields,
        command=f"inboxd {verb} {shell(typed['type'] or 'TYPE')} '{{…}}'",
    )


async def _do(kind: Written, visit: ActionVisit) -> ActionTold:
    typed = visit.typed
    type_, payload = typed.get("type", "").strip(), check_json(typed.get("payload", "{}"))
    if not type_:
        raise UsageError("the type is missing: give one, such as user.created")
    more: dict[str, Any] = {name: typed.get(name) for name in _MORE[kind]}
    settings = visit.settings
    names: dict[operations.Named, str | None] = (
        {"event type": type_, "topic": more["lane"]}
        if kind == "event"
        else {"command type": type_, "queue": more["lane"]}
    )
    declared: Mapping[str, Collection[str]] = {
        "topic": settings.topics,
        "queue": settings.queues,
    }
    for of, name in names.items():
        if name:
            also = declared.get(of, ())
            await operations.check_declared(visit.session, of, name, also=also)
    entry = Entry(type=type_, payload=payload, uuid=visit.once, **more)
    written = await write_by_hand(visit.session, kind, entry, **visit.by)
    path = f"/{kind}s/{written.id or written.uuid}"
    if written.conflict:
        return ActionTold(
            path,
            tell("Written as a dead letter: its dedup key belongs to an event of other content."),
            "error",
        )
    told = (
        tell("Emitted: event {id}.", id=written.id)
        if kind == "event"
        else tell("Sent: command {id}.", id=written.id)
    )
    return ActionTold(path, told)


def _back(kind: Written, _: QueryParams) -> str:
    return f"/{kind}s"


def _of(path: str, kind: Written) -> ScreenAction:
    return ScreenAction(
        path=path,
        ask=partial(_ask, kind),
        do=partial(_do, kind),
        back=partial(_back, kind),
        role=Role.ADMIN,
        reserved="emit" if kind == "event" else "send",
        most_body=_MOST_BODY,
    )


ACTIONS: Final = (_of("/act/emit", "event"), _of("/act/send", "command"))
