"""Breakers: the targets that are down, since when and why, and the lanes that need them."""

from functools import partial

from inboxd.admin.screens.pages.paging import part_by_name
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.model.wording import breaker_word
from inboxd.store import breakers


async def _breakers(visit: PageVisit) -> ScreenPage:
    part = await part_by_name(partial(breakers.listed, visit.session), visit.query)
    told = {} if part.after is None else {"next": part.after}
    words = {row["name"]: breaker_word(row) for row in part.rows}
    return ScreenPage(
        "breakers.html", {"breakers": part.rows, **told}, {"part": part, "words": words}
    )


SCREENS = (whole_inbox("/breakers", _breakers),)
