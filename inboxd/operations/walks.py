"""Walks through the rows of a list by descending id: unsettled rows, history, and indexed days.

A walk looks at each of its rows once, newest first. It leaves out days that have only higher ids,
by the census; it reads a range again if older days may have ids in it.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from inboxd.store import finding
from inboxd.store.finding import Days, Index, Looked, Turn

if TYPE_CHECKING:
    from inboxd.operations.finding import ListRequest

# Rows of the first look. The next look has `_MORE` times as many if none was a hit; otherwise
# `_SPARE` times as many as the page needs, by the share of hits so far.
FIRST: Final = 100
_MORE, _SPARE = 40, 2
# At this number of rows per id or more, a walk reads ranges of ids instead of an index.
_DENSE = 0.25
# Factor on the number of days, if older days may contain ids in the range that was read.
_WIDER = 4
# The most that the server's clock may step back.
CLOCK: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
EVER: Final[Days] = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
_NEVER: Final[Days] = (EVER[1], EVER[1])


@dataclass(slots=True)
class Walk:
    """It has looked at all ids from `below` on."""

    request: "ListRequest"
    below: int
    done: bool = False
    hits: list[tuple[int, datetime | None]] = field(default_factory=list)
    created: datetime | None = None
    rows: int = FIRST
    looked: int = 0
    blocks_a_row: float = 1.0
    dense: bool = False  # looks read a range of ids, which may hold fewer rows

    @property
    def fresh(self) -> bool:
        return self.created is None and not self.done

    @property
    def days(self) -> float:
        """Return 0 for unsettled rows."""
        return 0.0

    @property
    def oldest(self) -> datetime:
        """Estimate when the oldest row of the next look was created: not later, if possible."""
        return EVER[0] if self.created is None else self.request.twice_as_old(self.created)

    async def look(self, rows: int) -> Looked:
        return await finding.look_at_unsettled(self.request.session, self.turn(rows))

    def turn(self, rows: int) -> Turn:
        request = self.request
        # One hit more than the page has, to know whether there is another page.
        return Turn(request.table, request.wanted, self.below, rows, request.limit + 1)

    async def go_on(self, rows: int) -> None:
        await self.request.plan(walk=not self.dense)
        seen = await self.look(rows)
        self.request.spend(seen, self.days)
        self.took(seen, rows)

    def took(self, seen: Looked, rows: int) -> None:
        self.hits += seen.hits
        self.done = seen.looked < rows and not self.dense
        if seen.low is not None:
            self.below, self.created = seen.low, seen.low_created_at
            self.blocks_a_row = max(seen.blocks / seen.looked, 0.02)
        self.looked += seen.looked
        self.rows = self._following(rows)
        wanted = self.request.wanted
        since = wanted.since if wanted.by == "created" else None
        if since is not None and seen.ended is not None and seen.ended + CLOCK < since:
            self.done = True

    def _following(self, rows: int) -> int:
        if not self.hits:
            return rows * _MORE
        return max(rows, _SPARE * (self.request.limit + 1) * self.looked // len(self.hits))


@dataclass(slots=True)
class SettledWalk(Walk):
    """A walk through history, by days as needed. low: the oldest day that is read so far."""

    low: datetime = EVER[0]
    without: Days = _NEVER
    begun: datetime | None = None  # creation time of the first row that it looked at, or later

    @property
    def left_out(self) -> tuple[Days, Days]:
        """Leave out days of the index walk, and days with only higher ids."""
        return self.without, self.request.newer(self.below) or _NEVER

    @property
    def days(self) -> float:
        return self.request.days_read(self.low, self.left_out)

    @property
    def oldest(self) -> datetime:
        """Rows of earlier days let more days be read."""
        return self.low

    async def look(self, rows: int) -> Looked:
        days = (self.low, self.request.days[1])
        return await finding.look_at_settled(
            self.request.session, self.turn(rows), days, self.left_out, dense=self.dense
        )

    def took(self, seen: Looked, rows: int) -> None:
        """Read the range again if older days may have ids in it."""
        oldest = self.request.days[0]
        created = seen.low_created_at
        if self.low > oldest:
            short = seen.looked < rows and not self.dense
            if short or created is None or created < self.low + CLOCK:
                self.low = self._further()
                return
        # Not `super()`: @dataclass(slots=True) replaces the class to which `super` refers.
        Walk.took(self, seen, rows)
        if created is None:
            self.below -= rows
        else:
            self.begun = self.begun or created
            self.low = max(oldest, day_of(created - self._reach(created)) - DAY)
        span = 0 if seen.low is None or seen.high is None else seen.high - seen.low + 1
        self.dense = seen.looked > 1 and seen.looked >= span * _DENSE

    def _further(self) -> datetime:
        """Return the oldest day of the next look, which reads more days than the last one."""
        newer, oldest = self.request.newer(self.below), self.request.days[0]
        if newer is None or newer[0] <= self.low:
            return oldest
        low = newer[0] - _WIDER * (newer[0] - self.low)
        return low if low > max(oldest, self.request.first_day) else oldest

    def _reach(self, created: datetime) -> timedelta:
        """Estimate how far back the next look goes, by the frequency of rows so far."""
        rows = min(self.rows, self.request.affordable(self.blocks_a_row))
        first = self.begun or created
        return (first - created) / max(1, self.looked) * rows * _SPARE


@dataclass(slots=True)
class IndexWalk(Walk):
    """A walk through the rows of one type, tenant or entity, in days that have an index."""

    index: Index = "type"
    within: Days = EVER

    @property
    def read(self) -> Days:
        """Return the days that a look reads: without the newest, if they have only higher ids."""
        first, end = self.within
        newer = self.request.newer(self.below)
        if newer is None or newer[1] < end:
            return self.within
        return (first, max(first, min(end, newer[0])))

    @property
    def days(self) -> float:
        return _length(self.read)

    async def look(self, rows: int) -> Looked:
        return await finding.look_by_index(
            self.request.session, self.turn(rows), self.index, self.read
        )


def _length(days: Days) -> float:
    return max(0.0, (days[1] - days[0]) / DAY)


def day_of(at: datetime) -> datetime:
    """Round down in UTC, as partitions have it."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
