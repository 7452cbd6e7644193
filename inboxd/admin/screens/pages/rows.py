"""Lists of events and commands: five totals, charts, filters, and rows.

Visitors of certain tenants see one tenant at a time, without commands that events enqueued. Known
limit: totals follow only the filters by type and tenant, and are some seconds old.
"""

from collections.abc import Collection
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens import addresses
from inboxd.admin.screens.charts import Curve, top_of
from inboxd.admin.screens.formatting import moment
from inboxd.admin.screens.pages.chart_rows import DONE, FAILED, ChartRows, followed
from inboxd.admin.screens.pages.markers import markers_of
from inboxd.admin.screens.pages.matches import matching_rows
from inboxd.admin.screens.pages.queries import command_of, one_of, page_size, row_number, texts
from inboxd.admin.screens.pages.row_filters import FILTERS, lane_of, read_query, refuse_guesses
from inboxd.admin.screens.pages.titles import labels_of, titles_of
from inboxd.admin.screens.pages.type_slices import MOST, type_slices
from inboxd.admin.screens.roles import Visitor
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from inboxd.model.lifecycle import Status
from inboxd.operations.lately import SPANS, Span, SpanFigures
from inboxd.operations.names import KnownNames, unknown
from inboxd.operations.totals import count_all
from inboxd.store.finding import Filter, When
from inboxd.store.names import Names, declared
from inboxd.store.wakeups import HotTable

# How long shared values are used again.
_TOTALS_SECONDS, _FIGURES_SECONDS, _NAMES_SECONDS = 5.0, 10.0, 60.0
# The five totals, in the order of a row's life: title, field, statuses.
_TILES: Final[tuple[tuple[str, str, tuple[Status, ...]], ...]] = (
    ("Total", "total", ()),
    ("Pending", "pending", (Status.PENDING, Status.WAITING)),
    ("Running", "processing", (Status.RUNNING,)),
    ("Failed", "errors", (Status.FAILED,)),
    ("Succeeded", "successes", (Status.SUCCEEDED,)),
)
# The times of a row that `since` and `until` may refer to.
_TIMES: Final[tuple[tuple[When, str], ...]] = (
    ("created", "creation"),
    ("ended", "the end, also as a dead letter"),
    ("failed", "a failed attempt"),
    ("done", "the end, or a failed attempt"),
    ("waiting", "waiting or running"),
)
_LOOKS = {
    "total": "",
    "pending": "pending",
    "processing": "running",
    "errors": "failed",
    "successes": "succeeded",
}


async def _list(table: HotTable, visit: PageVisit) -> ScreenPage:
    query, own = visit.query, visit.visitor.tenants
    wanted, limit = _filter(table, visit), page_size(query)
    await refuse_guesses(visit.session, visit.settings.admin, table, wanted)
    found = await operations.find(
        visit.session, table, wanted, below=row_number(query, "below"), limit=limit
    )
    await operations.label_rows(visit.session, table, found.rows, visit.tenants, labels_of(visit))
    await operations.mark_replayed(visit.session, table, found.rows)
    names = await _declared(visit) if own is None else None
    silent = not found.rows and own is None
    filters = {*FILTERS, lane_of(table), "status", "commands"}
    whole = len(found.rows) if found.next is None and not query.get("below") else None
    shown: dict[str, Any] = {
        "table": table,
        "lane": lane_of(table),
        "rows": found.rows,
        "found": found,
        "full": len(found.rows) == limit,
        "limit": limit,
        "statuses": list(Status),
        "times": _TIMES,
        "chosen": wanted.statuses,
        "chosen_commands": wanted.commands,
        "filtered": any(query.get(name) for name in filters),
        "matches": await matching_rows(visit, table, wanted, filters, whole),
        "enqueued": None,
        "declared": {kind: sorted(each) for kind, each in (names or {}).items()},
        "doubts": await _doubts(table, visit, wanted, names) if silent else [],
        "own_tenants": sorted(own or ()),
        "tenant": wanted.tenant,
        "command": command_of(f"inboxd {table} list", query, filters),
        "address": partial(addresses.with_query, f"/{table}", query.multi_items()),
        "tiles": await _tiles(table, visit, wanted),
        **await _figures(table, visit, wanted),
    }
    if table == "events" and own is None:
        shown["enqueued"] = await operations.enqueued_by(visit.session, found.rows)
    return ScreenPage("rows.html", found.document(table), shown)


def _filter(table: HotTable, visit: PageVisit) -> Filter:
    if visit.visitor.tenants is not None and "commands" in visit.query:
        detail = "commands of events may be of any tenant, and you may see certain tenants only"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
    tenant = _tenant(visit.visitor, texts(visit.query, "tenant")["tenant"])
    return read_query(table, visit.query, tenant=tenant)


def _tenant(visitor: Visitor, asked: str | None) -> str | None:
    own = visitor.tenants
    if own is None or asked in own:
        return asked
    if asked is not None:
        detail = f"you may only see rows of these tenants: {', '.join(sorted(own))}"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)
    return min(own)


async def _tiles(table: HotTable, visit: PageVisit, wanted: Filter) -> list[dict[str, Any]]:
    totals = await visit.shared.get(
        visit.session,
        ("totals", table, wanted.type, wanted.tenant),
        _TOTALS_SECONDS,
        partial(count_all, visit.session, table, type_=wanted.type, tenant=wanted.tenant),
    )
    of = [("type", wanted.type or ""), ("tenant", wanted.tenant or "")]
    tiles = []
    for title, name, statuses in _TILES:
        pairs = [*of, *(("status", str(status)) for status in statuses)]
        in_hand = table == "events" and name == "processing" and visit.visitor.tenants is None
        tiles.append(
            {
                "title": title,
                "look": _LOOKS[name],
                "number": None if totals is None else getattr(totals, name),
                "address": "/workers" if in_hand else addresses.with_query(f"/{table}", pairs),
            }
        )
    return tiles


async def _figures(table: HotTable, visit: PageVisit, wanted: Filter) -> dict[str, Any]:
    span = cast("Span", one_of(visit.query, "span", SPANS))
    figures = await visit.shared.get(
        visit.session,
        ("figures", table, span, wanted.type, wanted.tenant),
        _FIGURES_SECONDS,
        partial(
            operations.done_lately,
            *(visit.session, table, span),
            type_=wanted.type,
            tenant=wanted.tenant,
        ),
    )
    if figures is None:
        return {"curves": None, "span": span, "spans": SPANS}
    units = figures.units
    curves = [
        Curve("Succeeded", "good", [unit.succeeded for unit in units], filled=True, rows=DONE),
        Curve("Failed", "bad", [unit.failed for unit in units], rows=FAILED),
        Curve("Retried", "warn dashed", [unit.retried for unit in units], rows=FAILED),
    ]
    moments = [unit.at for unit in units]
    address = partial(addresses.with_query, f"/{table}", followed(visit.query))
    return {
        "curves": curves,
        "markers": await markers_of(visit, moments[:-1]),
        "rows_of": ChartRows(moments, {table: address}),
        "top": top_of(curves),
        "moments": moments,
        "span": figures.span,
        "spans": SPANS,
        **await _types(table, visit, figures),
    }


async def _types(table: HotTable, visit: PageVisit, figures: SpanFigures) -> dict[str, Any]:
    common = [type_ for type_, _ in figures.types[:MOST]]
    ended = partial(
        addresses.with_query,
        f"/{table}",
        followed(visit.query),
        since=moment(figures.units[0].at),
        by="ended",
    )
    titles = await titles_of(visit, table.removesuffix("s"), common)
    return type_slices(figures.types, titles, ended)


async def _declared(visit: PageVisit) -> Names | None:
    read = partial(declared, visit.session)
    return await visit.shared.get(visit.session, "declared", _NAMES_SECONDS, read)


async def _doubts(
    table: HotTable, visit: PageVisit, wanted: Filter, names: Names | None
) -> list[str]:
    settings, seen = visit.settings, await visit.snapshot.seen()
    known = KnownNames(names, seen.document["lanes"])
    also: dict[str, Collection[str]] = {"topic": settings.topics, "queue": settings.queues}
    told = [
        await unknown(visit.session, kind, name, also=also.get(kind, ()), known=known)
        for kind, name in operations.names_of(table, wanted)
    ]
    return [each for each in told if each]


SCREENS = (
    Screen("/events", partial(_list, "events"), for_tenants=True),
    Screen("/commands", partial(_list, "commands"), for_tenants=True),
)
