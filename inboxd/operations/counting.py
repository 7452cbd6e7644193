"""Counts rows that match a filter of lists, by outcome, within a bound of rows to look at.

Promises that a count is exact or marked "at least", and that each row counts once, even if it
settles meanwhile. Totals of a type and a tenant come from the census (`totals.py`), at any size.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from time import monotonic

from inboxd.model.lifecycle import Status
from inboxd.operations.finding import LOOKED_AT, find
from inboxd.operations.totals import Exactness, Number
from inboxd.store import finding
from inboxd.store.finding import Filter
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Rows whose statuses are read at once.
_PAGE_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class FoundNumbers:
    """processing: None for events. looked_back_to: None if all rows were looked at."""

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
    session: Session,
    table: HotTable,
    wanted: Filter,
    look: int | None = None,
    seconds: float = float("inf"),
    requests: float = float("inf"),
) -> FoundNumbers:
    """look: the most rows. seconds: no look begins later. requests: the most requests of `find`."""
    look, begun = look or LOOKED_AT, monotonic()
    unsettled, settled = Counter[str](), Counter[str]()
    looked, below, asked = 0, None, 0
    while True:
        found = await find(
            *(session, table, wanted),
            below=below,
            limit=_PAGE_ROWS,
            look=min(look - looked, LOOKED_AT),
            read=finding.statuses,
        )
        for row in found.rows:
            (unsettled if row["finished_at"] is None else settled)[row["status"]] += 1
        looked, below, asked = looked + found.looked, found.next, asked + 1
        spent = looked >= look or asked >= requests or monotonic() - begun >= seconds
        if below is None or spent:
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
