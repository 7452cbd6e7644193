"""Batches and workflows: lists with totals and filters, and one in full with its members.

Known limit: totals and charts follow only the filters by type and tenant.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import partial
from typing import Any, Final, Literal, cast

from inboxd import operations
from inboxd.admin.screens import addresses
from inboxd.admin.screens.charts import Curve, Slice, top_of
from inboxd.admin.screens.formatting import NOTHING, moment
from inboxd.admin.screens.pages.chart_rows import ChartRows, followed
from inboxd.admin.screens.pages.markers import markers_of
from inboxd.admin.screens.pages.matches import matching_batches
from inboxd.admin.screens.pages.origins import origin_shown
from inboxd.admin.screens.pages.queries import (
    command_of,
    given,
    is_set,
    one_of,
    page_size,
    row_number,
    texts,
)
from inboxd.admin.screens.pages.steps import steps_shown
from inboxd.admin.screens.pages.titles import titles_of, titles_of_rows
from inboxd.admin.screens.pages.type_slices import type_slices
from inboxd.admin.screens.screen import Elsewhere, PageVisit, Screen, ScreenPage
from inboxd.errors import UsageError
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id
from inboxd.operations.lately import SPANS, Span
from inboxd.operations.recent_batches import recent_batches
from inboxd.operations.totals import Number, add, count_batches
from inboxd.store.batch_listing import BatchFilter

Kind = Literal["batch", "workflow"]

_TOTALS_SECONDS, _FIGURES_SECONDS = 10.0, 10.0
_STATUSES: Final = ("waiting", "pending", "running", "succeeded", "failed", "cancelled")
_FILTERS: Final = ("name", "type", "tenant", "since", "until")
_TILES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("Total", "", ()),
    ("Pending", "pending", ("waiting", "pending")),
    ("Running", "running", ("running",)),
    ("Failed", "failed", ("failed",)),
    ("Succeeded", "succeeded", ("succeeded",)),
)
# The outcomes of members that a batch counts, and their looks.
_ENDS: Final = (
    ("succeeded", "good"),
    ("failed", "bad"),
    ("cancelled", "idle"),
    ("skipped", "idle"),
)
# A dismissed member counts as cancelled.
_COUNTED: Final = {"cancelled": ("cancelled", "dismissed")}


async def _list(kind: Kind, visit: PageVisit) -> ScreenPage:
    query, what = visit.query, _list_of(kind)
    named, limit = texts(query, *_FILTERS), page_size(query)
    wanted = BatchFilter(
        kind=kind,
        statuses=tuple(map(_status, given(query, "status"))),
        tenant=named["tenant"],
        name=named["name"],
        type=named["type"],
        since=None if named["since"] is None else read_since(named["since"], UTC),
        until=None if named["until"] is None else read_since(named["until"], UTC),
        open=is_set(query, "open") or None,
        above=row_number(query, "above"),
        below=row_number(query, "below"),
        limit=limit,
    )
    found = await operations.batch_rows(visit.session, wanted)
    rows = found.rows
    totals = await visit.shared.get(
        visit.session,
        ("batches", kind, wanted.type, wanted.tenant),
        _TOTALS_SECONDS,
        partial(count_batches, visit.session, kind, type_=wanted.type, tenant=wanted.tenant),
    )
    names = await visit.tenants.names(visit.session, (row["tenant"] for row in rows))
    filters = (*_FILTERS, "status", "open")
    is_first = wanted.above is None and wanted.below is None
    whole = len(rows) if is_first and found.next is None else None
    shown = {
        "kind": kind,
        "what": what,
        "rows": rows,
        "found": found,
        "full": len(rows) == limit,
        "limit": limit,
        "statuses": _STATUSES,
        "chosen": wanted.statuses,
        "filtered": any(query.get(name) for name in filters),
        "matches": await matching_batches(visit, wanted, filters, whole),
        "tenant_names": names,
        "tiles": _tiles(what, totals, wanted),
        "address": partial(addresses.with_query, f"/{what}", query.multi_items()),
        "command": command_of(f"inboxd {what} list", query, (*_FILTERS, "status"))
        + (" --open" if wanted.open else ""),
        **await _figures(kind, visit, wanted),
    }
    told = {status: number.document() for status, number in (totals or {}).items()}
    return ScreenPage("batches.html", {**found.document(what), "totals": told or None}, shown)


def _list_of(kind: Kind) -> str:
    return "batches" if kind == "batch" else "workflows"


def _status(text: str) -> str:
    if text not in _STATUSES:
        raise UsageError(f"{text!r} is not a valid status of a batch: {', '.join(_STATUSES)}")
    return text


def _tiles(
    what: str, totals: dict[str, Number] | None, wanted: BatchFilter
) -> list[dict[str, Any]]:
    of = [("type", wanted.type or ""), ("tenant", wanted.tenant or "")]
    tiles = []
    for title, look, statuses in _TILES:
        pairs = [*of, *(("status", status) for status in statuses)]
        counted = None if totals is None else [totals[each] for each in statuses or _STATUSES]
        tiles.append(
            {
                "title": title,
                "look": look,
                "number": None if counted is None else add(counted),
                "address": addresses.with_query(f"/{what}", pairs),
            }
        )
    return tiles


async def _figures(kind: Kind, visit: PageVisit, wanted: BatchFilter) -> dict[str, Any]:
    span = cast("Span", one_of(visit.query, "span", SPANS))
    found = await visit.shared.get(
        visit.session,
        ("recent batches", kind, span, wanted.type, wanted.tenant),
        _FIGURES_SECONDS,
        partial(
            recent_batches,
            *(visit.session, kind, span),
            type_=wanted.type,
            tenant=wanted.tenant,
        ),
    )
    if found is None:
        return {"curves": None, "span": span, "spans": SPANS}
    steps, what = found.steps, _list_of(kind)
    moments, ids = [step.at for step in steps], [step.ids for step in steps]
    curves = [
        Curve("All created", "idle dashed", [step.created for step in steps], rows={}),
        Curve(
            *("Succeeded", "good", [step.succeeded for step in steps]),
            filled=True,
            rows={"status": "succeeded"},
        ),
        Curve("Failed", "bad", [step.failed for step in steps], rows={"status": "failed"}),
    ]
    address = partial(addresses.with_query, f"/{what}", followed(visit.query))
    of_the_span = {
        "since": moment(moments[0]),
        "above": min((ends[0] for ends in ids if ends), default=1) - 1,
    }
    titles = {type_: type_ or NOTHING for type_, _ in found.types}
    return {
        "curves": curves,
        "markers": await markers_of(visit, moments[:-1]),
        "rows_of": ChartRows(moments, {what: address}, None, ids),
        "top": top_of(curves),
        "moments": moments,
        "span": found.span,
        "spans": SPANS,
        **type_slices(found.types, titles, partial(address, **of_the_span)),
    }


async def _show(visit: PageVisit) -> ScreenPage | Elsewhere:
    id_, query = read_row_id(visit.path["id"]), visit.query
    row = await operations.batch_details(visit.session, id_)
    if not isinstance(id_, int):
        return Elsewhere(f"/batches/{row['id']}")
    after, statuses = row_number(query, "after") or 0, given(query, "status")
    members = await operations.members_of(
        visit.session, id_, row["created_at"], statuses, after=after, limit=page_size(query)
    )
    names = await visit.tenants.names(visit.session, [row["tenant"]])
    steps = await steps_shown(visit, row)
    address = partial(addresses.with_query, f"/batches/{row['id']}", query.multi_items())
    shown = {
        **steps,
        "row": row,
        "members": members,
        "tenant_name": names.get(row["tenant"]),
        "origin": await origin_shown(visit, row),
        "chosen": statuses,
        "titles": await titles_of(visit, "command", _types(row, members, steps["steps"])),
        "created_titles": await titles_of_rows(visit, row["created"]),
        "healed": row["failed_at"] is not None and row["status"] == "succeeded",
        "open": row["closed_at"] is None and row["finished_at"] is None,
        "slices": [
            Slice(name, look, row[name], _members(row["id"], name))
            for name, look in _ENDS
            if row[name]
        ],
        "address": address,
    }
    return ScreenPage("batch.html", row, shown)


def _members(batch: int, end: str) -> str:
    of = [("status", each) for each in _COUNTED.get(end, (end,))]
    return f"{addresses.with_query(f'/batches/{batch}', of)}#members"


def _types(
    row: dict[str, Any], members: operations.Members, steps: Sequence[Mapping[str, Any]]
) -> set[str]:
    rows = (*members.rows, *steps, *row["failures"], *row["waiting"])
    return {each["type"] for each in rows if each["type"]}


SCREENS = (
    Screen("/batches", partial(_list, "batch")),
    Screen("/workflows", partial(_list, "workflow")),
    Screen("/batches/{id}", _show),
)
