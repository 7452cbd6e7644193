"""Workers: the living ones, the leader, the rows in flight, and ended workers."""

from collections import Counter

from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import whole_inbox
from inboxd.store import listing

_MOST = 1000


async def _workers(visit: PageVisit) -> ScreenPage:
    ended = visit.query.get("all") == "1"
    rows = [dict(row) for row in await listing.workers(visit.session, ended=ended, limit=_MOST)]
    part = part_of(
        rows,
        lambda row: str(row["id"]),
        visit.query,
        lambda row: f"{row['name']} {row['host']} {row['version']} {row['state']}",
    )
    living = [row for row in rows if row["ended_at"] is None]
    shown = {
        "part": part,
        "ended": ended,
        "living": living,
        "late": visit.settings.worker.lease.total_seconds() / 2,
        "versions": Counter(row["version"] for row in living).most_common(),
        "leader": next((row for row in living if row["leads"]), None),
    }
    told = {} if part.after is None else {"next": part.after}
    return ScreenPage("workers.html", {"workers": part.rows, **told}, shown)


SCREENS = (whole_inbox("/workers", _workers),)
