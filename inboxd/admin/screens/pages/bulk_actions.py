"""Bulk actions and their progress; visitors of certain tenants see those on their rows."""

import re
from typing import Final

from inboxd import operations
from inboxd.admin.screens.pages.queries import page_size, row_number
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id

_ROW: Final = re.compile(r"(?<=[ ,])(\d+)(?= is )")


async def _list(visit: PageVisit) -> ScreenPage:
    limit = page_size(visit.query)
    rows = await operations.orders(
        visit.session,
        tenants=visit.visitor.tenants,
        below=row_number(visit.query, "below"),
        limit=limit,
    )
    next_ = rows[-1]["id"] if len(rows) == limit else None
    return ScreenPage("actions.html", {"actions": rows, "next": next_})


async def _one(visit: PageVisit) -> ScreenPage:
    number = read_row_id(visit.path["id"])
    if not isinstance(number, int):
        raise UsageError("the address of a bulk action must have its number")
    row = await operations.one_order(visit.session, number, tenants=visit.visitor.tenants)
    # The note of a canary that failed names rows: each second part is the number of one.
    note = _ROW.split(row["note"] or "")
    return ScreenPage("action.html", row, {"row": row, "note": note})


SCREENS = (
    Screen("/actions", _list, for_tenants=True),
    Screen("/actions/{id}", _one, for_tenants=True),
)
