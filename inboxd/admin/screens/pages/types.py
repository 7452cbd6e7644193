"""Types of events and commands: their descriptions, their workers, their figures."""

from typing import Any, cast

from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import database_now, overview, paused_as, pauses, whole_inbox
from inboxd.errors import NotFound
from inboxd.model.wording import LINES, title_from
from inboxd.operations.types import RowKind, one_type, type_list

_KINDS = ("event", "command")


async def _types(visit: PageVisit) -> ScreenPage:
    now, found = await database_now(visit), await overview(visit)
    document = await type_list(visit.session, now, _waiting(found))
    for row in document["types"]:
        row["title"] = row["title"] or title_from(row["type"])
    kind = visit.query.get("kind")
    rows = [row for row in document["types"] if kind in (None, "", row["kind"])]
    part = part_of(rows, _key, visit.query, lambda row: f"{_key(row)} {row['title']}")
    lanes: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for lane in found["lanes"]:
        lanes.setdefault((lane["kind"], lane["type"]), []).append(lane)
    day = {
        (row["kind"], row["type"]): row
        for row in found["completed"]
        if row["hours"] == 24  # noqa: PLR2004
    }
    shown = {
        "part": part,
        "lanes": lanes,
        "day": day,
        "counted_to": found["counted_to"],
        "failed_counted_to": found["sample"]["failed_counted_to"],
        "paused": await pauses(visit, "type", {row["type"] for row in part.rows}),
    }
    told = {} if part.after is None else {"next": part.after}
    return ScreenPage("types.html", {"types": part.rows, **told}, shown)


def _waiting(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(lane["kind"], lane["type"]) for lane in found["lanes"] if lane["type"] != LINES}


def _key(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['type']}"


async def _type(visit: PageVisit) -> ScreenPage:
    kind, type_ = visit.path["kind"], visit.path["type"]
    if kind not in _KINDS:
        raise NotFound(f"{kind!r} is not a kind of type: use event or command")
    now, found = await database_now(visit), await overview(visit)
    lanes = [lane for lane in found["lanes"] if lane["kind"] == kind and lane["type"] == type_]
    waiting = _waiting(found)
    document = await one_type(visit.session, cast("RowKind", kind), type_, now, waiting)
    shown = {
        "lanes": lanes,
        "counted_to": found["counted_to"],
        "failed_counted_to": found["sample"]["failed_counted_to"],
        "paused_as": await paused_as(visit, "type", type_),
        "stopped": [row for row in found["breakers"] if f"{kind} {type_}" in row["uses"]],
    }
    return ScreenPage("type.html", document, shown)


SCREENS = (whole_inbox("/types", _types), whole_inbox("/types/{kind}/{type:path}", _type))
