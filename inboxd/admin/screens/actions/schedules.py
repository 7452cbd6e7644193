"""Adds, changes and removes schedules while workers run.

Promises that the audit has each view of a payload, if the settings ask for that. Known limit: a
schedule whose payload has hidden parts can only be changed on a terminal.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
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
from inboxd.admin.screens.actions.payload import hides_some_of, note_look
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.model import duration
from inboxd.model.json_text import check_json
from inboxd.operations.by_hand import Written
from inboxd.operations.schedules import (
    add_schedule,
    added_schedule,
    change_schedule,
    changed,
    check_names,
    digest,
    new_schedule,
    remove_schedule,
)
from inboxd.settings import Settings

_MOST_BODY: Final = 2 * 1024 * 1024
_PAGE: Final = "/schedules"
_WHAT_FOLLOWS: Final = (tell("Any worker sends it from now on, until it is removed."),)
_KINDS: Final = (("command", tell("A command")), ("event", tell("An event")))
_MISSED: Final = (
    ("once", tell("Run once for all of them")),
    ("skip", tell("Skip them")),
    ("all", tell("Run each of them")),
)
_TEXTS: Final[Mapping[str, Sentence]] = {
    "expires_after": tell("A command that has not started expires after (for example 10m)"),
    "time_field": tell("Field of the payload for the time of the run"),
    "tenant": tell("Tenant"),
    "title": tell("Title"),
    "description": tell("Description"),
}

_SHOWN: Final = ("cron", "zone", "missed", "payload", "lane", "priority", *_TEXTS)


async def _ask_add(visit: ActionVisit) -> Question:
    typed = visit.typed
    return Question(
        title=tell("A new schedule"),
        button=tell("Add"),
        does=[tell("A command is sent, or an event emitted, at the times of a cron expression.")],
        follows=_WHAT_FOLLOWS,
        fields=[
            AskedField(name="name", title=tell("Name"), value=typed.get("name", ""), required=True),
            AskedField(
                name="kind",
                title=tell("Sends"),
                kind="choice",
                choices=_KINDS,
                value=typed.get("kind", "command"),
            ),
            AskedField(name="type", title=tell("Type"), value=typed.get("type", ""), required=True),
            *_fields(typed),
        ],
        command="inboxd schedules add NAME '0 3 * * *' --command TYPE",
    )


async def _do_add(visit: ActionVisit) -> ActionTold:
    typed = visit.typed
    name = typed.get("name", "").strip()
    kind: Written = "event" if typed.get("kind") == "event" else "command"
    said = _said(typed, "topic" if kind == "event" else "queue")
    cron, type_ = str(said.pop("cron", "")), typed.get("type", "").strip()
    schedule = new_schedule(name, cron, kind, type_, said)
    await check_names(visit.session, schedule, partial(_named_in, visit.settings))
    at = await add_schedule(visit.session, schedule, **visit.by)
    return ActionTold(_PAGE, tell("Added: its first run is at {time}.", time=_time(at)))


async def _ask_change(visit: ActionVisit) -> Question:
    name = visit.named("schedule")
    schedule = await added_schedule(visit.session, name)
    if await hides_some_of(visit, schedule.kind, schedule.type, schedule.payload):
        raise Conflict(
            f"a part of the payload of schedule {name!r} is hidden on the screens by redact_keys "
            "or hidden_types of [admin], or by its handler: on a terminal, run "
            f"`inboxd schedules change {shell(name)}`"
        )
    await note_look(visit, f"schedule {name}")
    shown = {field: _shown(getattr(schedule, field)) for field in _SHOWN}
    return Question(
        title=tell("Schedule {name}", name=name),
        button=tell("Change"),
        does=[tell("The changes take effect at once.")],
        follows=[tell("Its next run does not change, unless its times do.")],
        fields=_fields({**shown, **visit.typed}),
        seen=digest(schedule),
        command=f"inboxd schedules change {shell(name)} --cron '0 3 * * *'",
    )


async def _do_change(visit: ActionVisit) -> ActionTold:
    name = visit.named("schedule")
    schedule = await added_schedule(visit.session, name)
    said = _said(visit.typed, "topic" if schedule.kind == "event" else "queue")
    after = changed(schedule, said)
    await check_names(visit.session, after, partial(_named_in, visit.settings), schedule)
    nothing = {field: None for field in _TEXTS if field not in said}
    at = await change_schedule(
        visit.session, name, {**nothing, **said}, seen=visit.seen or "", **visit.by
    )
    return ActionTold(_PAGE, tell("Changed: its next run is at {time}.", time=_time(at)))


async def _ask_remove(visit: ActionVisit) -> Question:
    name = visit.named("schedule")
    schedule = await added_schedule(visit.session, name)
    return Question(
        title=tell("Schedule {name}", name=name),
        button=tell("Remove"),
        does=[tell("The schedule sends nothing any more.")],
        follows=[tell("Rows that it has sent stay.")],
        seen=digest(schedule),
        command=f"inboxd schedules remove {shell(name)}",
        final=True,
    )


async def _do_remove(visit: ActionVisit) -> ActionTold:
    name = visit.named("schedule")
    await remove_schedule(visit.session, name, seen=visit.seen or "", **visit.by)
    return ActionTold(_PAGE, tell("Removed: schedule {name}.", name=name))


def _shown(value: object) -> str:
    if isinstance(value, timedelta):
        return duration.write(value)
    return "" if value is None else str(value)


def _fields(typed: Mapping[str, str]) -> list[AskedField]:
    return [
        AskedField(
            name="cron",
            title=tell("Cron expression: minute, hour, day of month, month, day of week"),
            value=typed.get("cron", ""),
            hint="30 7 * * MON-FRI",
            required=True,
        ),
        AskedField(name="zone", title=tell("Time zone"), value=typed.get("zone", "UTC")),
        AskedField(
            name="missed",
            title=tell("Missed runs"),
            kind="choice",
            choices=_MISSED,
            value=typed.get("missed", "once"),
        ),
        AskedField(
            name="payload",
            title=tell("Payload"),
            kind="json",
            value=typed.get("payload", "{}"),
            required=True,
        ),
        AskedField(
            name="lane",
            title=tell("Topic of an event, queue of a command; empty: that of its type"),
            value=typed.get("lane", ""),
        ),
        AskedField(
            name="priority",
            title=tell("Priority of a command"),
            kind="number",
            value=typed.get("priority", "0"),
        ),
        *(
            AskedField(name=name, title=title, value=typed.get(name, ""))
            for name, title in _TEXTS.items()
        ),
    ]


def _said(typed: Mapping[str, str], lane: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        name: typed[name].strip()
        for name in ("cron", "zone", "missed", *_TEXTS)
        if typed.get(name, "").strip()
    }
    if "expires_after" in said:
        said["expires_after"] = duration.parse(said["expires_after"])
    said["payload"] = check_json(typed.get("payload", "{}"))
    said[lane] = typed.get("lane", "").strip() or None
    try:
        said["priority"] = int(typed.get("priority", "0"))
    except ValueError:
        raise UsageError("the priority must be a whole number from -32768 to 32767") from None
    return said


def _named_in(settings: Settings, kind: operations.Named) -> Collection[str]:
    return settings.topics if kind == "topic" else settings.queues


def _time(at: Any) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _back(_: QueryParams) -> str:
    return _PAGE


ACTIONS: Final = (
    ScreenAction(
        path="/act/schedules/add",
        ask=_ask_add,
        do=_do_add,
        back=_back,
        role=Role.ADMIN,
        reserved="add schedule",
        most_body=_MOST_BODY,
    ),
    ScreenAction(
        path="/act/schedules/change",
        ask=_ask_change,
        do=_do_change,
        back=_back,
        role=Role.ADMIN,
        reserved="change schedule",
        most_body=_MOST_BODY,
    ),
    ScreenAction(
        path="/act/schedules/remove",
        ask=_ask_remove,
        do=_do_remove,
        back=_back,
        role=Role.ADMIN,
        reserved="remove schedule",
    ),
)
