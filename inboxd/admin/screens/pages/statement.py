"""The daily statement: the events received on a day, their outcomes, and the differences."""

import shlex
from datetime import date
from typing import Any

from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.operations.daily_statement import read_day, statement
from inboxd.store import daily_statement as store


async def _statement(visit: PageVisit) -> ScreenPage:
    asked, source = visit.query.get("day"), visit.query.get("source") or None
    wanted = read_day(asked) if asked else None
    document = await statement(visit.session, wanted, source)
    shown: dict[str, Any] = {
        "before": None,
        "after": None,
        "newest": "",
        "command": _command(document["day"], source),
    }
    if document["day"] is not None:
        # A day that is not over may have findings, but it has no statement to link to.
        beside = await store.beside(visit.session, date.fromisoformat(document["day"]))
        shown |= {name: beside[name] for name in ("before", "after")}
        shown["newest"] = str(beside["newest"])
    return ScreenPage("statement.html", document, shown)


def _command(day: str | None, source: str | None) -> str:
    options = [] if day is None else ["--day", day]
    options += [] if source is None else ["--source", source]
    return shlex.join(["inboxd", "statement", *options])


SCREENS = (whole_inbox("/statement", _statement),)
