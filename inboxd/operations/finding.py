"""Lists of events and commands by any filter, with a bounded cost per request.

A request looks at rows by descending id, in hot tables and history, until the page is full, all
rows were looked at, or its bound is reached; the next one continues there. Promises: a row that
existed when a list began, and stays, is on exactly one page: its id never changes, and a page reads
one snapshot. A request reads at most about 2,000 blocks: with any number of days of history, once
the leader has counted these days; with at most 90 days while it has not, for a list by the status
of commands, and where days have indexes. Ids bound a search in time: a row is created before it
gets its id, and settled after. So no row above the id of a row that was created at T or later was
settled before T, and no row below the id of a row that was settled before T was created at T or
later. Known limits: the server's clock may step back by at most `CLOCK`; a row that is settled,
created or replayed while pages are read may be on a later page, or on none.
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

# The default bound of a request in rows, and its budget in blocks.
LOOKED_AT = 50_000
_BLOCKS = 1_350
# The most statements of a request: looks, and changes of their plan.
_LOOKS = 5
# Blocks that a look reads per day before its first row (half of them for planning), that a probe
# reads per day, and that each row of a page costs.
_BLOCKS_A_DAY, _BLOCKS_A_PROBE, _BLOCKS_A_ROW = 8.0, 3.5, 5.0
# Blocks for the commands of one event, besides the blocks of each day since.
_BLOCKS_OF_COMMANDS = 12.0
# Blocks per day of commands, once per request with a filter on them: planning reads their indexes.
_BLOCKS_OF_PLANNING = 6.7
_TOP = 2**63 - 1
# Precision, in ids, of the start of a search in time.
_NEAR = 500
_INDEXES: tuple[Index, ...] = ("entity", "tenant", "type")


# Reads the rows that looks found, given by id and settling time.
ReadRows = Callable[
    [Session, HotTable, Sequence[tuple[int, datetime | None]]],
    Awaitable[Sequence[Any]],
]


@dataclass(frozen=True, slots=True)
class Found:
    """next: id below which the next page begins; None, as looked_back_to: no rows remain."""

    rows: list[dict[str, Any]]
    looked: int
    next: int | None
    looked_back_to: datetime | None

    def document(self, what: str) -> dict[str, Any]:
        """`what` is the name of the rows."""
        return {
            what: self.rows,
            "next": self.next,
            "looked_at": self.looked,
            "looked_back_to": self.looked_back_to,
        }


# Makes one request of a search. Its arguments, in this order: `below`, `limit`, `look`.
Ask = Callable[[int | None, int, int], Awaitable[Found]]


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
    """Raises DatabaseError if the role cannot read a column that the filter uses.

    look: the most rows to look at; fewer, if these would take too many blocks.
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
    """Make as many requests as it takes to look at `look` rows; each has a snapshot."""

    async def ask(below: int | None, limit: int, look: int) -> Found:
        most = min(look, LOOKED_AT)
        return await find(session, table, wanted, below=below, limit=limit, look=most, read=read)

    return await in_requests(ask, below=below, limit=limit, look=look)


async def in_requests(ask: Ask, *, below: int | None, limit: int, look: int) -> Found:
    rows: list[dict[str, Any]] = []
    looked = 0
    while True:
        found = await ask(below, limit - len(rows), look - looked)
        rows += found.rows
        looked, below = looked + found.looked, found.next
        if below is None or len(rows) == limit or looked >= look:
            return Found(rows, looked, below, found.looked_back_to)


class ListRequest:
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
        if wanted.by not in (
            "created",
            "ended",
        ):  # a matching row may have settled at any later time
            until = None
        self.days: Days = (
            EVER[0] if since is None else day_of(since),
            min(day_of(now) + DAY, day_of(EVER[1] if until is None else min(until, EVER[1]))) + DAY,
        )
        self._looked, self._look, self._read = 0, look, read
        self._blocks = _BLOCKS - _BLOCKS_A_ROW * min(limit, 100)
        self._blocks -= _BLOCKS_OF_PLANNING * view.commands if wanted.commands else 0
        self._view, self._now = view, now
        self._walking, self._asked, self._below = True, 0, _TOP

    @property
    def first_day(self) -> datetime:
        return self._view.lowest[-1][0][0] if self._view.lowest else EVER[0]

    def newer(self, below: int) -> Days | None:
        """Return days that have no row below an id, usually the newest days."""
        return self._view.newer(below)

    def days_read(self, low: datetime, without: Sequence[Days] = ()) -> float:
        return max(1.0, float(self._view.days(low, self.days[1], without)))

    def twice_as_old(self, created: datetime) -> datetime:
        """Return the time of a row that is a day more than twice as old."""
        return self._now - 2 * (self._now - max(EVER[0], created)) - DAY

    def _days_of_commands(self, created: datetime) -> float:
        """Return the number of days in which a command of an event may have been settled."""
        # The filter reads commands that were settled up to a day from now.
        past = day_of(self._now) + 2 * DAY - day_of(created)
        return max(0.0, min(past / DAY, float(self._view.commands)))

    async def plan(self, *, walk: bool) -> None:
        """Let the planner prefer index walks for looks, or else bitmap scans."""
        if walk is not self._walking:
            await finding.plan_looks(self.session, walk=walk)
            self._walking = walk

    def _asks(self, walk: Walk) -> int:
        return 1 if self._walking is not walk.dense else 2

    def affordable(self, blocks_a_row: float) -> int:
        return max(0, min(int(self._blocks / blocks_a_row), self._look - self._looked))

    def spend(self, seen: Looked, days: float) -> None:
        self._looked += seen.looked
        self._blocks -= _BLOCKS_A_DAY * days + seen.blocks
        self._blocks -= seen.looked * self._blocks_besides(seen.low_created_at or self._now)

    def _blocks_besides(self, created: datetime) -> float:
        """Count the blocks besides its own: of indexes, and of the filter."""
        blocks = 0.005
        if self.wanted.payload:
            blocks += 0.02
        if self.wanted.commands:
            blocks += _BLOCKS_OF_COMMANDS
            if SETTLED.intersection(self.wanted.commands):
                blocks += _BLOCKS_A_PROBE * self._days_of_commands(created)
        return blocks

    def _rows(self, walk: Walk, walks: Sequence[Walk]) -> int:
        """Return at least 1 for a walk's first look."""
        waiting = [walk, *(each for each in walks if each.fresh and each is not walk)]
        # Reserve the start costs of all walks first, so that a walk of many days has a budget left.
        beginning = _BLOCKS_A_DAY * sum(each.days for each in waiting)
        left = (self._blocks - beginning) / len(waiting)
        blocks_a_row = walk.blocks_a_row + self._blocks_besides(walk.oldest)
        rows = min(walk.rows, int(left / blocks_a_row), self._look - self._looked)
        return max(1, rows) if walk.fresh else rows

    async def walks(self, below: int, index: Index | None) -> list[Walk]:
        """The walks together visit all rows that may match. index: the view's index."""
        self._below = below
        statuses = frozenset(self.wanted.statuses)
        walks = [Walk(self, below)] if not statuses or statuses & HOT else []
        if statuses and not statuses & SETTLED:
            return walks
        narrowed = _TOP
        if self.wanted.until is not None and self.wanted.until < self.days[1]:
            narrowed = await self._first_after(self.wanted.until)
            below = min(below, narrowed)
        # The newest ids are usually in the newest days; `took` checks that.
        newest = day_of(min(self._now, self.wanted.until or self._now)) - DAY
        newer = self.newer(below)
        if newer is not None and newer[1] >= newest:
            newest = min(newest, newer[0] - 2 * DAY)
        low = max(self.days[0], newest)
        # After a search for an id, a first look must cover its imprecision.
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
        """Find a low id above which no row was settled before `until`."""
        days = (day_of(until), day_of(until) + DAY)
        found = await finding.lowest_after(
            self.session, self.table, until + CLOCK, days, none=_TOP, near=_NEAR
        )
        self._blocks -= _BLOCKS_A_PROBE * (found["probes"] if found else 1)
        return found["id"] if found else _TOP

    async def page(self, walks: Sequence[Walk]) -> Found:
        """Advance the walk with the highest id until the page is full or the budget is spent."""
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
