"""Types of events and commands: declarations, workers, retry rules, throughput.

Known limit: history may have rows of other types than the listed ones.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, Literal

from inboxd.errors import UnknownName
from inboxd.model.spelling import did_you_mean
from inboxd.operations import rates
from inboxd.operations.labels import label
from inboxd.store import listing, workers
from inboxd.store.session import Session
from inboxd.store.statistics import FigureFilter

RowKind = Literal["event", "command"]
# A kind and a type of it.
Typed = tuple[str, str]

_MOST_WORKERS = 1000


async def type_list(
    session: Session, now: datetime, waiting: Collection[Typed] = ()
) -> dict[str, Any]:
    """The types are declared, subscribed to, scheduled, waiting, or processed within a day."""
    found = {key: _type(key) for key in (*waiting, *await _done(session, now))}
    for (kind, name), said in (await workers.declared(session)).items():
        if kind == "schedule":
            sent = (said["kind"], said["type"])
            found.setdefault(sent, _type(sent))
        if kind.endswith(" type"):
            key = (kind.removesuffix(" type"), name)
            said_of = {name: said[name] for name in ("title", "description", "queue")}
            found[key] = _type(key) | said_of | {"declared": True}
    for row in await session.fetch("list_topics", None, None, []):
        for type_ in row["types"]:
            known = found.setdefault(("event", type_), _type(("event", type_)))
            known["topics"].append(row["topic"])
    return {"types": [found[key] for key in sorted(found)]}


async def _done(session: Session, now: datetime) -> list[Typed]:
    figures = await rates.done(session, "day", now, apart=("kind", "type"))
    return [(each.kind or "", each.type or "") for each in figures]


def _type(key: Typed) -> dict[str, Any]:
    kind, type_ = key
    none = dict.fromkeys(("title", "description", "queue"))
    return {"kind": kind, "type": type_, **none, "declared": False, "topics": []}


async def one_type(
    session: Session, kind: RowKind, type_: str, now: datetime, waiting: Collection[Typed] = ()
) -> dict[str, Any]:
    listed = (await type_list(session, now, waiting))["types"]
    one = next((each for each in listed if (each["kind"], each["type"]) == (kind, type_)), None)
    of = FigureFilter(kind=kind, type=type_)
    if one is None and not await rates.ever(session, now, of):
        hint = did_you_mean(type_, [each["type"] for each in listed if each["kind"] == kind])
        raise UnknownName(
            f"there is no {kind} type {type_!r}: it is not declared, and no {kind} of it waits or "
            f"was processed within 90 days{hint or '.'}"
        )
    hour = await rates.done(session, "hour", now, of=of)
    day = await rates.done(session, "day", now, of=of)
    one = one or _type((kind, type_))
    called = label(type_, one["title"], one["description"])
    serving = await listing.workers(session, ended=False, limit=_MOST_WORKERS)
    return {
        **one,
        "title": called.title,
        "description": called.description,
        "retry": await listing.rules(session, kind, type_),
        "workers": [row["name"] for row in serving if type_ in row[f"{kind}s"]],
        "figures": [
            rates.told(rates.summed(hour), "hour", now),
            rates.told(rates.summed(day), "day", now),
        ],
    }
