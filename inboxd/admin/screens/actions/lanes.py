"""Actions on lanes, sources and schedules: pause, resume, flush, unsubscribe, run."""

from collections.abc import Collection, Mapping
from typing import Final, cast, get_args

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
    way_back,
)
from inboxd.admin.screens.addresses import path_of
from inboxd.admin.screens.formatting import shell
from inboxd.admin.screens.roles import Role
from inboxd.errors import Conflict, UsageError
from inboxd.operations.by_hand import last_run, run_schedule
from inboxd.store import controls
from inboxd.store.controls import Control, Kind, Mode

_HOLDS: Final = {
    "source": tell("Incoming webhooks are stored and held; messages of a broker are not read."),
    "schedule": tell(
        "The schedule sends nothing. Its rule decides about the runs that are missed meanwhile."
    ),
}
_LEAVES: Final = tell(
    "All workers stop taking its rows within a second. Rows that run go on, and producers "
    "can still write."
)


def _lane(visit: ActionVisit) -> tuple[Kind, str]:
    kind, name = visit.named("kind"), visit.named("name")
    if kind not in get_args(Kind):
        raise UsageError(f"{kind[:40]!r} cannot be paused: use {', '.join(get_args(Kind))}")
    return cast("Kind", kind), name


def _page(about: QueryParams) -> str:
    kind, name = about.get("kind", ""), about.get("name", "")
    return way_back(about, path_of(f"{kind}s", name) if kind in ("queue", "topic") else f"/{kind}s")


async def _paused(visit: ActionVisit, kind: str, name: str) -> Control | None:
    found = await controls.read(visit.session, [name])
    return next((row for row in found if row["kind"] == kind), None)


async def _check_known(visit: ActionVisit, kind: Kind, name: str) -> None:
    """Raise UnknownName for a name that does not exist."""
    settings = visit.settings
    also: Mapping[str, Collection[str]] = {
        "topic": settings.topics,
        "queue": settings.queues,
        "source": {**settings.inbound.webhooks, **settings.inbound.messages},
    }
    if kind != "schedule":
        await operations.check_known(visit.session, kind, name, also=also.get(kind, ()))


_NAMED: Final[Mapping[Kind, Sentence]] = {
    "type": tell("Type {name}"),
    "topic": tell("Topic {name}"),
    "queue": tell("Queue {name}"),
    "schedule": tell("Schedule {name}"),
    "source": tell("Source {name}"),
}


_WITHIN: Final[Mapping[Kind, Sentence]] = {
    "type": tell("type {name}"),
    "topic": tell("topic {name}"),
    "queue": tell("queue {name}"),
    "schedule": tell("schedule {name}"),
    "source": tell("source {name}"),
}


def _named(kind: Kind, name: str) -> Sentence:
    return Sentence(_NAMED[kind].text, {"name": name})


def _within(kind: Kind, name: str) -> Sentence:
    """The same as `_named`, within another sentence."""
    return Sentence(_WITHIN[kind].text, {"name": name})


async def _ask_pause(visit: ActionVisit) -> Question:
    kind, name = _lane(visit)
    await _check_known(visit, kind, name)
    if (row := await _paused(visit, kind, name)) is not None and kind != "source":
        raise Conflict(f"{kind} {name!r} is paused already, by {row['actor']}")
    choices = [("hold", tell("Store and hold")), ("refuse", tell("Answer 503"))]
    mode = AskedField(
        name="mode",
        title=tell("Incoming webhooks"),
        kind="choice",
        choices=choices,
        value=visit.typed.get("mode", "hold"),
    )
    waiting = []
    if kind not in _HOLDS:
        n = await operations.waiting_rows(visit.session, kind, name)
        waiting = [tell("Rows that wait there now: {n}.", n=f"{n:,}")]
    return Question(
        title=_named(kind, name),
        button=tell("Pause"),
        does=[_HOLDS.get(kind, _LEAVES), *waiting],
        follows=[tell("Waiting rows stay until an operator resumes it; nothing is lost.")]
        + (
            [tell("A webhook that is answered 503 is lost if its sender tries only once.")]
            if kind == "source"
            else []
        ),
        fields=[mode] if kind == "source" else [],
        command=f"inboxd pause {kind} {shell(name)}",
    )


async def _do_pause(visit: ActionVisit) -> ActionTold:
    kind, name = _lane(visit)
    await _check_known(visit, kind, name)
    mode = visit.typed.get("mode", "hold")
    if mode not in get_args(Mode):
        raise UsageError(f"{mode[:40]!r} is not a valid mode: use {', '.join(get_args(Mode))}")
    refuse = mode == "refuse"
    waiting = await operations.pause(visit.session, kind, name, refuse=refuse, **visit.by)
    told = tell("Paused: {name}. Waiting rows: {n}.", name=_within(kind, name), n=waiting)
    return ActionTold(_page(visit.about), told)


async def _ask_resume(visit: ActionVisit) -> Question:
    kind, name = _lane(visit)
    row = await _paused(visit, kind, name)
    if row is None:
        raise Conflict(f"{kind} {name!r} is not paused")
    why = row["reason"] or "-"
    return Question(
        title=_named(kind, name),
        button=tell("Resume"),
        does=[
            tell("All workers resume it within a second. Held webhooks become events.")
            if kind == "source"
            else tell("All workers resume it within a second.")
        ],
        follows=[tell("It was paused by {actor}: {why}", actor=row["actor"], why=why)],
        seen=row["paused_at"].isoformat(),
        command=f"inboxd resume {kind} {shell(name)}",
    )


async def _do_resume(visit: ActionVisit) -> ActionTold:
    kind, name = _lane(visit)
    waiting = await operations.resume(visit.session, kind, name, seen=visit.seen_at, **visit.by)
    told = tell("Resumed: {name}. Waiting rows: {n}.", name=_within(kind, name), n=waiting)
    return ActionTold(_page(visit.about), told)


async def _ask_flush(visit: ActionVisit) -> Question:
    topic, key = visit.named("topic"), visit.about.get("key")
    n = await operations.flushable(visit.session, topic, key)
    return Question(
        title=tell("Topic {name}", name=topic),
        button=tell("Flush"),
        does=[tell("Its waiting chunks become due now, whatever they wait for: {n}.", n=f"{n:,}")],
        follows=[tell("Events that have arrived and are not yet in a chunk become due with them.")],
        command=f"inboxd topics flush {shell(topic)}" + (f" {shell(key)}" if key else ""),
    )


async def _do_flush(visit: ActionVisit) -> ActionTold:
    topic = visit.named("topic")
    keys = await operations.flush(visit.session, topic, visit.about.get("key"), **visit.by)
    return ActionTold(
        path_of("topics", topic), tell("Flushed: {n} chunks are due now.", n=len(keys))
    )


async def _ask_unsubscribe(visit: ActionVisit) -> Question:
    topic, type_ = visit.named("topic"), visit.about.get("type")
    return Question(
        title=tell("Topic {name}", name=topic),
        button=tell("Unsubscribe"),
        does=[
            tell("The topic gets no more events of the type {type}.", type=type_)
            if type_
            else tell("The topic gets no more events of any type.")
        ],
        follows=[tell("Its events stay. A subscription that a living worker declares stays, too.")],
        command=f"inboxd topics unsubscribe {shell(topic)}" + (f" {shell(type_)}" if type_ else ""),
        final=True,
    )


async def _do_unsubscribe(visit: ActionVisit) -> ActionTold:
    topic = visit.named("topic")
    ended = await operations.unsubscribe(visit.session, topic, visit.about.get("type"), **visit.by)
    told = tell("Unsubscribed: {types}.", types=", ".join(ended))
    return ActionTold(path_of("topics", topic), told)


async def _ask_run(visit: ActionVisit) -> Question:
    name = visit.named("schedule")
    last = await last_run(visit.session, name)
    return Question(
        title=_named("schedule", name),
        button=tell("Run now"),
        does=[tell("The schedule runs once now, besides its times.")],
        follows=[tell("Its next run does not change. A paused schedule is run, too.")],
        seen="" if last is None else last.isoformat(),
        command=f"inboxd schedules run {shell(name)}",
    )


async def _do_run(visit: ActionVisit) -> ActionTold:
    seen = visit.seen_at
    at = await run_schedule(visit.session, visit.named("schedule"), seen=seen, **visit.by)
    return ActionTold("/schedules", tell("Sent: the run of {time}.", time=f"{at:%H:%M:%S} UTC"))


def _topic(about: QueryParams) -> str:
    return path_of("topics", about.get("topic", ""))


def _schedules(_: QueryParams) -> str:
    return "/schedules"


ACTIONS: Final = (
    ScreenAction(path="/act/pause", ask=_ask_pause, do=_do_pause, back=_page),
    ScreenAction(path="/act/resume", ask=_ask_resume, do=_do_resume, back=_page),
    ScreenAction(path="/act/flush", ask=_ask_flush, do=_do_flush, back=_topic),
    ScreenAction(
        path="/act/unsubscribe",
        ask=_ask_unsubscribe,
        do=_do_unsubscribe,
        back=_topic,
        role=Role.ADMIN,
    ),
    ScreenAction(path="/act/run", ask=_ask_run, do=_do_run, back=_schedules, reserved="run"),
)
