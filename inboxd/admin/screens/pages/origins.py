"""The origin of a row, as pages show it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inboxd import operations
from inboxd.admin.screens.pages.titles import titles_of
from inboxd.admin.screens.screen import PageVisit


async def origin_shown(visit: PageVisit, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """None: no other row is the origin. A deleted origin has no title."""
    kind, id_ = row["origin_kind"], row["origin_id"]
    if kind not in ("event", "command", "batch") or id_ is None:
        return None
    created, finished = _time(row["created_at"]), _time(row.get("finished_at"))
    found = created and await operations.origin_of(visit.session, kind, id_, created, finished)
    if not found:
        return {"kind": kind, "id": id_, "title": None}
    titles = await titles_of(visit, kind, [found.type])
    return {"kind": kind, "id": id_, "title": titles[found.type]}


def _time(value: datetime | str | None) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
