"""Endpoints: their URLs and states, and their deliveries. Never a secret."""

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

from inboxd.admin.redaction import Redaction
from inboxd.admin.screens.pages.paging import part_by_name
from inboxd.admin.screens.pages.queries import command_of, one_of, page_size, row_number
from inboxd.admin.screens.roles import Role
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import overview, paused_as, whole_inbox
from inboxd.model.endpoints import QUEUE, endpoint_document, endpoint_state
from inboxd.model.lifecycle import Status
from inboxd.operations import deliveries, one_endpoint
from inboxd.store import endpoints


async def _list(visit: PageVisit) -> ScreenPage:
    state = visit.query.get("state")
    part = await part_by_name(
        partial(endpoints.listed, visit.session),
        visit.query,
        lambda row: not state or endpoint_state(row) == state,
    )
    rows = [_seen(visit, row) for row in part.rows]
    told = {} if part.after is None else {"next": part.after}
    states = {row["name"]: endpoint_state(row) for row in rows}
    return ScreenPage(
        "endpoints.html", {"endpoints": rows, **told}, {"part": part, "states": states}
    )


async def _one(visit: PageVisit) -> ScreenPage:
    name, status = visit.path["name"], one_of(visit.query, "status", ("", *Status))
    row = await one_endpoint(visit.session, name)
    limit = page_size(visit.query)
    delivered = await deliveries(
        *(visit.session, name),
        statuses=(status,) if status else (),
        below=row_number(visit.query, "below"),
        limit=limit,
    )
    rows, redaction = delivered.rows, Redaction(visit.settings.admin)
    for each in rows:
        redaction.hide(each)
    if not visit.visitor.may(Role.READER):
        rows = [each | {"answer": None} for each in rows]
    found = await overview(visit)
    shown = {
        "state": endpoint_state(row),
        "deliveries": rows,
        "delivered": delivered,
        "full": len(rows) == limit,
        "queue": QUEUE + name,
        "lanes": [lane for lane in found["lanes"] if lane.get("queue") == QUEUE + name],
        "paused_as": await paused_as(visit, "queue", QUEUE + name),
        "statuses": list(Status),
        "command": command_of(
            f"inboxd endpoints deliveries {shlex.quote(name)}", visit.query, ("status",)
        ),
    }
    return ScreenPage("endpoint.html", _seen(visit, row), shown)


def _seen(visit: PageVisit, row: Mapping[str, Any]) -> dict[str, Any]:
    """A URL may have a secret in it: viewers see neither URL nor error."""
    document = endpoint_document(row)
    if visit.visitor.may(Role.READER):
        return document
    return document | {"url": None, "last_failure": None}


SCREENS = (whole_inbox("/endpoints", _list), whole_inbox("/endpoints/{name:path}", _one))
