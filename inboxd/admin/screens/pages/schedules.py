"""Schedules: their times, the rows that they send, and their pauses."""

from functools import partial

from inboxd.admin.screens.pages.paging import part_by_name
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import pauses, whole_inbox
from inboxd.store import schedules


async def _schedules(visit: PageVisit) -> ScreenPage:
    part = await part_by_name(partial(schedules.listed, visit.session), visit.query)
    paused = await pauses(visit, "schedule", {row["name"] for row in part.rows})
    told = {} if part.after is None else {"next": part.after}
    return ScreenPage(
        "schedules.html", {"schedules": part.rows, **told}, {"part": part, "held": paused}
    )


SCREENS = (whole_inbox("/schedules", _schedules),)
