"""The daily statement: what was received on a day, what became of it, and whether that adds up.

*See:* `operations/daily_statement.py`, which the command line's `statement` prints too.
"""

import shlex
from datetime import date, timedelta
from typing import Any

from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.operations.daily_statement import read_day, statement


async def _statement(visit: PageVisit) -> ScreenPage:
    asked, source = visit.query.get("day"), visit.query.get("source") or None
    wanted = read_day(asked) if asked else None
    document = await statement(visit.session, wanted, source)
    shown: dict[str, Any] = {
        "before": None,
        "after": None,
        "command": _command(document["day"], source),
    }
    if document["day"] is not None:
        day = date.fromisoformat(document["day"])
        shown["before"] = day - timedelta(days=1)
        shown["after"] = day + timedelta(days=1) if wanted is not None else None
    return ScreenPage("statement.html", document, shown)


def _command(day: str | None, source: str | None) -> str:
    options = [] if day is None else ["--day", day]
    options += [] if source is None else ["--source", source]
    return shlex.join(["inboxd", "statement", *options])


SCREENS = (whole_inbox("/statement", _statement),)
