"""How many rows match a filter of lists, by what became of them: as far as was looked.

Owns the counting of what `finding` finds. Promises that a count is exact where all was looked at,
and else says "at least", and how far it came; and that each row counts once, also one that settles
meanwhile. Known limit: it looks at rows, so it takes as long as a list that goes through as many;
totals of a type and a tenant come from the census (`totals.py`), at any size.
*See:* `cli/count.py`, before it; `finding.py`, after it.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from inboxd.model.lifecycle import Status
from inboxd.operations.finding import LOOKED_AT, find
from inboxd.operations.totals import Exactness, Number
from inboxd.store import finding
from inboxd.store.finding import Filter
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Rows whose status is read at once.
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class FoundNumbers:
    """How many rows match, named as totals are.

    processing: None for events, which have no such status. looked: rows that were looked at.
    looked_back_to: when the last of them was created; None: all were looked at.
    """

    total: Number
    pending: Number
    processing: Number | None
    errors: Number
    successes: Number
    cancelled: Number
    dismissed: Number
    replayed: Number
    looked: int
    looked_back_to: datetime | None


async def count_found(
    session: Session, table: HotTable, wanted: Filter, look: int | None = None
) -> FoundNumbers:
    """Count the rows that a list of this filter would show, looking at so many at most."""
    look = look or LOOKED_AT
    unsettled, settled = Counter[str](), Counter[str]()
    looked, below = 0, None
    while True:
        found = await find(
            *(session, table, wanted),
            below=below,
            limit=_PAGE,
            look=min(look - looked, LOOKED_AT),
            read=finding.statuses,
        )
        for row in found.rows:
            (unsettled if row["finished_at"] is None else settled)[row["status"]] += 1
        looked, below = looked + found.looked, found.next
        if below is None or looked >= look:
            break
    how = Exactness.EXACT if below is None else Exactness.AT_LEAST
    running = Number(unsettled[Status.RUNNING], how)
    return FoundNumbers(
        total=Number(unsettled.total() + settled.total(), how),
        pending=Number(unsettled[Status.PENDING] + unsettled[Status.WAITING], how),
        processing=None if table == "events" else running,
        errors=Number(unsettled[Status.FAILED], how),
        successes=Number(settled[Status.SUCCEEDED], how),
        cancelled=Number(settled[Status.CANCELLED], how),
        dismissed=Number(settled[Status.DISMISSED], how),
        replayed=Number(settled[Status.FAILED], how),
        looked=looked,
        looked_back_to=None if below is None else found.looked_back_to,
    )
