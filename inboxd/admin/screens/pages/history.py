"""History: its partitions, their sizes, which are removed next, and which are counted."""

from typing import Any

from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.operations.history import history
from inboxd.store import census


async def _history(visit: PageVisit) -> ScreenPage:
    document = await history(visit.session, visit.settings)
    table = visit.query.get("table")
    rows = [row for row in document["partitions"] if not table or row["table"] == table]
    hidden = 0
    if visit.query.get("all") != "1":
        used = [row for row in rows if not _is_dull(row)]
        hidden, rows = len(rows) - len(used), used
    uncounted = await census.uncounted(visit.session)
    part = part_of(sorted(rows, key=_order, reverse=True), _key, visit.query)
    shown = {
        "part": part,
        "hidden": hidden,
        "sums": _sums(document["partitions"]),
        "uncounted": {day.part: day.over for day in uncounted},
    }
    return ScreenPage("history.html", document, shown)


def _key(row: dict[str, Any]) -> str:
    return str(row["partition"])


def _order(row: dict[str, Any]) -> tuple[Any, str]:
    return row["from"], row["table"]


def _is_dull(row: dict[str, Any]) -> bool:
    return bool(row["empty"]) and row["state"] == "attached" and not row["due"]


def _sums(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sums = found.setdefault(row["table"], {"days": 0, "bytes": 0, "oldest": None, "due": 0})
        sums["bytes"] += row["bytes"] or 0
        sums["due"] += row["due"]
        if not row["empty"]:
            sums["days"] += 1
            sums["oldest"] = min(row["from"], sums["oldest"] or row["from"])
    return found


SCREENS = (whole_inbox("/history", _history),)
