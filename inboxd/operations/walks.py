"""Ways through the rows of a list by descending id: unsettled ones, history, and indexed days.

Owns how large the next look of a way is, and which days of history it reads. Promises that a way
looks at each row of its own once, the newest first, unless older days turn out to have rows among
those that it looked at: then it looks again. How much may be spent is its request's.
*See:* `finding.py`, before it, whose requests go these ways; `store/finding.py`, after it.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from inboxd.store import finding
from inboxd.store.finding import Days, Index, Looked, Turn

if TYPE_CHECKING:
    from inboxd.operations.finding import ListRequest

# Rows of the first look; how many times as many the next one takes, if nothing was found; and how
# many times as many as seem to be needed, if something was.
FIRST: Final = 100
_MORE, _SPARE = 40, 2
# Rows to an id from which on a range of ids is read, not an index walked.
_DENSE = 0.25
# By how much the server's clock may step back.
CLOCK: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
EVER: Final[Days] = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


@dataclass(slots=True)
class Walk:
    """One way through rows by descending id: all from `below` on was looked at."""

    request: "ListRequest"
    below: int
    done: bool = False
    hits: list[tuple[int, datetime | None]] = field(default_factory=list)
    created: datetime | None = None
    rows: int = FIRST
    looked: int = 0
    blocks_a_row: float = 1.0
    dense: bool = False  # a range of ids is looked at, which may hold fewer rows

    @property
    def fresh(self) -> bool:
        """Whether it has looked at nothing yet."""
        return self.created is None and not self.done

    @property
    def days(self) -> float:
        """How many days of history a look reads: none, the rows are unsettled."""
        return 0.0

    async def look(self, rows: int) -> Looked:
        """Look at the next rows."""
        return await finding.look_at_unsettled(self.request.session, self.turn(rows))

    def turn(self, rows: int) -> Turn:
        """What is looked at next."""
        request = self.request
        # One more than the page takes, which tells whether there is another page.
        return Turn(request.table, request.wanted, self.below, rows, request.limit + 1)

    async def go_on(self, rows: int) -> None:
        """Look at so many rows at most."""
        await self.request.plan(walk=not self.dense)
        seen = await self.look(rows)
        self.request.spend(seen, self.days)
        self.took(seen, rows)

    def took(self, seen: Looked, rows: int) -> None:
        """Go on behind what was looked at."""
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
        """How many rows the next look takes, behind one of so many."""
        if not self.hits:
            return rows * _MORE
        return max(rows, _SPARE * (self.request.limit + 1) * self.looked // len(self.hits))


@dataclass(slots=True)
class SettledWalk(Walk):
    """Through history, day by day as it is needed: `low` is the oldest that is read so far."""

    low: datetime = EVER[0]
    without: Days = (EVER[1], EVER[1])
    begun: datetime | None = None  # when the first row was created that it looked at, or later

    @property
    def days(self) -> float:
        """How many days of history a look reads: those that have an index are left to that."""
        first, end = max(self.without[0], self.low), self.without[1]
        left_out = max(0.0, (end - first) / DAY)
        return max(1.0, self.request.days_from(self.low) - left_out)

    async def look(self, rows: int) -> Looked:
        """Look at the next rows."""
        days = (self.low, self.request.days[1])
        return await finding.look_at_settled(
            self.request.session, self.turn(rows), days, self.without, dense=self.dense
        )

    def took(self, seen: Looked, rows: int) -> None:
        """Go on behind what was looked at; or look again, if older days may have rows among it."""
        oldest = self.request.days[0]
        created = seen.low_created_at
        if self.low > oldest:
            short = seen.looked < rows and not self.dense
            if short or created is None or created < self.low + CLOCK:
                self.low = oldest
                return
        # (Named, since a dataclass with slots is another class than the one that `super` means.)
        Walk.took(self, seen, rows)
        if created is None:
            self.below -= rows
        else:
            self.begun = self.begun or created
            self.low = max(oldest, day_of(created - self._reach(created)) - DAY)
        span = 0 if seen.low is None or seen.high is None else seen.high - seen.low + 1
        self.dense = seen.looked > 1 and seen.looked >= span * _DENSE

    def _reach(self, created: datetime) -> timedelta:
        """How far the next look goes back, if rows go on to be as frequent as they were."""
        rows = min(self.rows, self.request.affordable(self.blocks_a_row))
        first = self.begun or created
        return (first - created) / max(1, self.looked) * rows * _SPARE


@dataclass(slots=True)
class IndexWalk(Walk):
    """Through the rows of one type (tenant, entity) in days that have an index of them."""

    index: Index = "type"
    within: Days = EVER

    @property
    def days(self) -> float:
        """How many days of history a look reads."""
        return (self.within[1] - self.within[0]) / DAY

    async def look(self, rows: int) -> Looked:
        """Look at the next rows."""
        return await finding.look_by_index(
            self.request.session, self.turn(rows), self.index, self.within
        )


def day_of(at: datetime) -> datetime:
    """The beginning of its day, in UTC, as partitions have it."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
