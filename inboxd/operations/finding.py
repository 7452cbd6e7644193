"""Lists of events and commands: found by any filter, however rare, within bounds that are told.

Owns the requests: each goes through the rows by descending id, hot tables and history together,
look by look, until the page is full, all was looked at, or it has looked at as much as it may. Then
it tells how far it came, and goes on from there when it is asked to. `find` is one request,
`search` several.

Promises: a row that was there when a list began, and stays, is on one of its pages once, also when
it settles between two of them: its id never changes, and a page is one view of the database. A
request looks at no more rows than it was told, and reads some 2,000 blocks of the database at most,
while there are at most 90 days of history and a page has at most 100 rows.
Where it begins and ends in time follows from ids being given in order: nothing is settled before
it got its id, nor gets it before it is created. So above the id of a row that was created at T or
later nothing was settled before T, and below the id of one that was settled before T nothing was
created at T or later.
Known limits: that order is the server's clock's, which may step back by at most `CLOCK`. What is
settled, created or replayed while pages are read may be on a later one, or on none.
*See:* `walks.py`, the ways through the rows; `store/finding.py`, after them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inboxd.model.lifecycle import HOT, SETTLED
from inboxd.operations.walks import (
    CLOCK,
    DAY,
    EVER,
    FIRST,
    IndexWalk,
    SettledWalk,
    Walk,
    day_of,
)
from inboxd.store import finding
from inboxd.store.finding import Days, Filter, Index, Looked, View
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

# Rows that a request looks at unless it is told otherwise, and blocks that it plans to read.
LOOKED_AT = 50_000
_BLOCKS = 1_350
# Looks of a request, changes of how they are planned among them: then it goes on when it is asked.
_LOOKS = 5
# Blocks that a look reads of each day before its first row, half of them while it is planned; that
# a probe reads of one; and those for each row of a page.
_BLOCKS_A_DAY, _BLOCKS_A_PROBE, _BLOCKS_A_ROW = 8.0, 3.5, 5.0
# Blocks that it reads for the commands of one event, besides those of each day since.
_OF_COMMANDS = 12.0
# And once for all of them: of each partition's indexes, while it is planned.
_OF_PARTITIONS = 600
_TOP = 2**63 - 1
# Ids between which the beginning of a search in time need not be known better.
_NEAR = 500
_INDEXES: tuple[Index, ...] = ("entity", "tenant", "type")


# The rows that looks found, each by its id and when it was settled.
ReadRows = Callable[
    [Session, HotTable, Sequence[tuple[int, datetime | None]]],
    Awaitable[Sequence[Any]],
]


@dataclass(frozen=True, slots=True)
class Found:
    """A page of a list.

    looked: rows that were looked at. next: below which id the next page begins, None: all was
    looked at. looked_back_to: when the last row was created that was looked at; None: to the end.
    """

    rows: list[dict[str, Any]]
    looked: int
    next: int | None
    looked_back_to: datetime | None

    def document(self, table: HotTable) -> dict[str, Any]:
        """As JSON has it."""
        return {
            table: self.rows,
            "next": self.next,
            "looked_at": self.looked,
            "looked_back_to": self.looked_back_to,
        }


async def find(
    session: Session,
    table: HotTable,
    wanted: Filter,
    *,
    below: int | None = None,
    limit: int = 20,
    look: int = LOOKED_AT,
    read: ReadRows = finding.rows,
) -> Found:
    """A page of rows, by descending id; `below`: the `next` of the page before it.

    One request: it may look at fewer rows than it was told, if more would take too many blocks.
    read: what is told of the rows.
    Raises DatabaseError if its role may not read what a filter looks at.
    """
    if wanted.error is not None or wanted.by == "failed":
        session.refuse_withheld("error texts")
    if wanted.payload:
        session.refuse_withheld("payloads")
    index = next((each for each in _INDEXES if wanted.names(each)), None)
    async with finding.snapshot(session, table, index) as view:
        request = ListRequest(session, view, table, wanted, limit, look, read)
        return await request.page(await request.walks(below or _TOP, index))


async def search(
    session: Session,
    table: HotTable,
    wanted: Filter,
    *,
    below: int | None,
    limit: int,
    look: int,
    read: ReadRows = finding.rows,
) -> Found:
    """The same by as many requests as it takes to look at so many rows, each a view of its own."""
    rows: list[dict[str, Any]] = []
    looked = 0
    while True:
        found = await find(
            *(session, table, wanted),
            below=below,
            limit=limit - len(rows),
            look=min(look - looked, LOOKED_AT),
            read=read,
        )
        rows += found.rows
        looked, below = looked + found.looked, found.next
        if below is None or len(rows) == limit or looked >= look:
            return Found(rows, looked, below, found.looked_back_to)


class ListRequest:
    """One page: what is wanted, and what may still be spent on it."""

    def __init__(
        self,
        session: Session,
        view: View,
        table: HotTable,
        wanted: Filter,
        limit: int,
        look: int,
        read: ReadRows,
    ) -> None:
        self.session, self.table, self.wanted, self.limit = session, table, wanted, limit
        since, until, now = wanted.since, wanted.until, view.now
        if wanted.by not in ("created", "ended"):  # it may have been settled at any time since
            until = None
        self.days: Days = (
            EVER[0] if since is None else day_of(since),
            min(day_of(now) + DAY, day_of(EVER[1] if until is None else min(until, EVER[1]))) + DAY,
        )
        self._looked, self._look, self._read = 0, look, read
        self._blocks = _BLOCKS - _BLOCKS_A_ROW * min(limit, 100)
        self._blocks -= _OF_PARTITIONS if wanted.commands else 0
        self._view, self._now = view, now
        self._walking, self._asked, self._below = True, 0, _TOP

    def days_from(self, low: datetime) -> float:
        """About how many days with rows there are from one on."""
        past = min(self.days[1], day_of(self._now) + DAY) - low
        return max(1.0, min(past / DAY, float(self._view.filled)))

    async def plan(self, *, walk: bool) -> None:
        """Let looks walk an index, or else read each block once."""
        if walk is not self._walking:
            await finding.plan_looks(self.session, walk=walk)
            self._walking = walk

    def _asks(self, walk: Walk) -> int:
        """How many statements the next look of a walk takes."""
        return 1 if self._walking is not walk.dense else 2

    def affordable(self, blocks_a_row: float) -> int:
        """How many rows may still be looked at, at so many blocks each."""
        return max(0, min(int(self._blocks / blocks_a_row), self._look - self._looked))

    def spend(self, seen: Looked, days: float) -> None:
        """Note what a look cost."""
        self._looked += seen.looked
        self._blocks -= _BLOCKS_A_DAY * days + seen.blocks
        since = days if seen.low_created_at is None else self.days_from(seen.low_created_at)
        self._blocks -= seen.looked * self._blocks_besides(since)

    def _blocks_besides(self, days: float) -> float:
        """Blocks for each row that is looked at, besides its own: of indexes, and what is asked.

        days: how many there are since it was created.
        """
        blocks = 0.005
        if self.wanted.payload:
            blocks += 0.02
        if self.wanted.commands:
            blocks += _OF_COMMANDS
            if SETTLED.intersection(self.wanted.commands):
                blocks += _BLOCKS_A_PROBE * days
        return blocks

    def _rows(self, walk: Walk, walks: Sequence[Walk]) -> int:
        """How many rows the next look of a walk may look at; at least one if it has seen none."""
        waiting = [walk, *(each for each in walks if each.fresh and each is not walk)]
        # What it costs to begin is taken from all, so that a walk of many days has rows left.
        beginning = _BLOCKS_A_DAY * sum(each.days for each in waiting)
        left = (self._blocks - beginning) / len(waiting)
        days = walk.days if walk.created is None else self.days_from(walk.created)
        blocks_a_row = walk.blocks_a_row + self._blocks_besides(days)
        rows = min(walk.rows, int(left / blocks_a_row), self._look - self._looked)
        return max(1, rows) if walk.fresh else rows

    async def walks(self, below: int, index: Index | None) -> list[Walk]:
        """The ways that lead to all rows that may match; index: what the view was asked for."""
        self._below = below
        statuses = frozenset(self.wanted.statuses)
        walks = [Walk(self, below)] if not statuses or statuses & HOT else []
        if statuses and not statuses & SETTLED:
            return walks
        narrowed = _TOP
        if self.wanted.until is not None and self.wanted.until < self.days[1]:
            narrowed = await self._first_after(self.wanted.until)
            below = min(below, narrowed)
        # What is newest is in the newest days, as a rule; `took` sees whether that holds.
        newest = day_of(min(self._now, self.wanted.until or self._now)) - DAY
        low = max(self.days[0], newest)
        # An id that was looked for is not known better than that.
        first = _NEAR if narrowed < _TOP else FIRST
        settled = SettledWalk(self, below, low=low, rows=first)
        walks.append(settled)
        indexed = self._view.indexed
        if index and indexed:
            within = (max(indexed[0], self.days[0]), min(indexed[1], self.days[1]))
            if within[0] < within[1]:
                settled.without = within
                walks.append(IndexWalk(self, below, index=index, within=within))
        return walks

    async def _first_after(self, until: datetime) -> int:
        """An id above which nothing was settled before then, as low as it is quickly found."""
        days = (day_of(until), day_of(until) + DAY)
        found = await finding.lowest_after(
            self.session, self.table, until + CLOCK, days, none=_TOP, near=_NEAR
        )
        self._blocks -= _BLOCKS_A_PROBE * (found["probes"] if found else 1)
        return found["id"] if found else _TOP

    async def page(self, walks: Sequence[Walk]) -> Found:
        """Go on with the walk that is furthest behind, until there is a page."""
        while True:
            behind = max((w for w in walks if not w.done), key=lambda w: w.below, default=None)
            frontier = 0 if behind is None else behind.below
            hits = sorted((h for w in walks for h in w.hits if h[0] >= frontier), reverse=True)
            if behind is None or len(hits) >= self.limit or (rows := self._rows(behind, walks)) < 1:
                break
            if frontier < self._below and self._asked + self._asks(behind) > _LOOKS:
                break
            self._asked += self._asks(behind)
            await behind.go_on(rows)
        listed = hits[: self.limit]
        rows_ = [dict(row) for row in await self._read(self.session, self.table, listed)]
        if len(listed) == self.limit and (behind or len(hits) > self.limit):
            return Found(rows_, self._looked, listed[-1][0], rows_[-1]["created_at"])
        if behind is None:
            return Found(rows_, self._looked, None, None)
        return Found(rows_, self._looked, frontier, behind.created)
