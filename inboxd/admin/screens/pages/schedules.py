"""Schedules: their times, the rows that they send, and their pauses.

*See:* `store/schedules.py`, which the command line's `schedules` prints too.
"""

from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import overview, whole_inbox
from inboxd.store import schedules


async def _schedules(visit: PageVisit) -> ScreenPage:
    rows = [dict(row) for row in await schedules.listed(visit.session)]
    part = part_of(rows, lambda row: row["name"], visit.query)
    found = await overview(visit)
    paused = {row["name"]: row for row in found["paused"] if row["kind"] == "schedule"}
    told = {} if part.after is None else {"next": part.after}
    return ScreenPage(
        "schedules.html", {"schedules": part.rows, **told}, {"part": part, "held": paused}
    )


SCREENS = (whole_inbox("/schedules", _schedules),)
