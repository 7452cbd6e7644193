"""The first page: the state of the whole inbox."""

from functools import partial
from typing import Any, Final

from inboxd import operations
from inboxd.admin.screens import addresses
from inboxd.admin.screens.charts import Curve, top_of
from inboxd.admin.screens.lately import Hour, last_hour, rate
from inboxd.admin.screens.pages.chart_rows import FAILED, ChartRows
from inboxd.admin.screens.pages.doctor import examined_briefly
from inboxd.admin.screens.pages.markers import markers_of
from inboxd.admin.screens.pages.titles import labels_of
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.model.wording import LINES
from inboxd.operations.doctor import Verdict

_LANES: Final = 40
_GROUPS: Final = 6
_WORKERS: Final = 12
_RATE_MINUTES: Final = 5
# Subjects of the doctor's findings that have banners of their own.
_OWN_BANNERS: Final = ("breakers", "paused")
_LISTS: Final = {
    table: partial(addresses.with_query, f"/{table}", ()) for table in ("commands", "events")
}


async def _overview(visit: PageVisit) -> ScreenPage | Elsewhere:
    if visit.visitor.tenants is not None:  # the overview shows all tenants
        return Elsewhere("/events")
    seen = await visit.snapshot.seen()
    found = seen.document
    hour = await last_hour(visit.session, seen.now)
    groups = [each for each in await operations.failures(visit.session) if not each.archived]
    shown = {
        "hour": hour,
        "throughput_curves": _throughput(hour),
        "waiting_curves": [
            Curve("Waiting", "wait", hour.waiting, filled=True, of=hour.of("waiting"))
        ],
        "markers": await markers_of(visit, hour.minutes),
        "rows_of": ChartRows(hour.minutes, _LISTS),
        "waiting_of": ChartRows(hour.minutes, _LISTS, "waiting"),
        "top_of": top_of,
        "sums": _sums(found),
        "arriving": rate(hour.arrived[-_RATE_MINUTES:]),
        "doing": rate(hour.done[-_RATE_MINUTES:]),
        "lanes_shown": _lanes(found, hour)[:_LANES],
        "lanes_left": max(0, len(found["lanes"]) - _LANES),
        "groups": sorted(groups, key=lambda group: group.last_at, reverse=True)[:_GROUPS],
        "groups_left": max(0, len(groups) - _GROUPS),
        "workers_shown": found["workers"][:_WORKERS],
        "workers_left": max(0, len(found["workers"]) - _WORKERS),
        "titles": {
            kind: await labels_of(visit)(visit.session, kind, _types(found, groups, kind))
            for kind in ("event", "command")
        },
    }
    # Last, when the page itself is read.
    examined = await examined_briefly(visit)
    grave = [] if examined is None else examined.at_least(Verdict.WARNING)
    shown["examined"] = examined
    shown["problems"] = [each for each in grave if each["subject"] not in _OWN_BANNERS]
    return ScreenPage("overview.html", found, shown)


def _throughput(hour: Hour) -> list[Curve]:
    """Only failures have links: more would make the page heavy."""
    return [
        Curve("Arrived", "idle dashed", hour.arrived),
        Curve("Done", "good", hour.done, filled=True, of=hour.of("done")),
        Curve("Failed or retried", "bad", hour.failed, rows=FAILED, of=hour.of("failed")),
    ]


def _sums(found: dict[str, Any]) -> dict[str, Any]:
    """`…_cut`: a lane was only counted up to a bound."""
    lanes, to = found["lanes"], found["counted_to"]
    failed_to = found["sample"]["failed_counted_to"]
    late = [
        lane
        for lane in lanes
        if lane["oldest"] is not None
        and not (lane["paused"] or lane["breaker"] or lane.get("kept"))
    ]
    return {
        "waiting": sum(lane["pending"] + (lane["unmet"] or 0) for lane in lanes),
        "waiting_cut": any(lane["pending"] >= to for lane in lanes),
        "running": sum(row["in_flight"] for row in found["workers"]),
        "failed": sum(lane["failed"] for lane in lanes),
        "failed_cut": any(lane["failed"] >= failed_to for lane in lanes),
        "late": max(late, key=lambda lane: lane["oldest"], default=None),
    }


def _lanes(found: dict[str, Any], hour: Hour) -> list[dict[str, Any]]:
    """The lanes with most dead letters come first, then the fullest."""
    lanes = []
    for lane in found["lanes"]:
        place = lane["topic"] if lane["kind"] == "event" else lane["queue"]
        type_ = "" if lane["type"] == LINES else lane["type"]
        trend = hour.lanes.of(lane["kind"], place, type_)
        kept = lane.get("kept", False)
        lanes.append({**lane, "place": place, "in_lines": not type_, "trend": trend, "kept": kept})
    return sorted(lanes, key=lambda lane: (-lane["failed"], -lane["pending"], lane["type"]))


def _types(found: dict[str, Any], groups: list[operations.Group], kind: str) -> set[str]:
    lanes = {lane["type"] for lane in found["lanes"] if lane["kind"] == kind}
    return lanes | {type_ for group in groups if group.kind == kind for type_ in group.types}


SCREENS = (Screen("/", _overview, for_tenants=True),)
