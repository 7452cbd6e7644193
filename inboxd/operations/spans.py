"""Spans of time, and the steps that they are cut into, for numbers and charts.

Promises: a span ends now, by the database's clock; its steps are whole minutes, hours or days of
UTC, as its length decides, so no change of a local clock moves them, and there are `MOST_STEPS` at
most; what lies after now, since a clock was set back, is in the last step. Known limit: it begins
with a whole step, somewhat before what was asked for.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inboxd.errors import UsageError
from inboxd.store import statistics
from inboxd.store.session import Session
from inboxd.store.statistics import Resolution

LONGEST = timedelta(days=3660)
MOST_STEPS = 3_700

_UNITS: dict[Resolution, timedelta] = {
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
    "days": timedelta(days=1),
}
# Up to how far back each is read: so some hundred steps are, and less than 2,000 blocks.
_BY_MINUTE = timedelta(hours=6)
_BY_HOUR = timedelta(days=7)
# Steps of several units, when there are more than may be shown.
_SEVERAL: dict[Resolution, tuple[int, ...]] = {
    "minutes": (1, 2, 5, 10, 15, 30, 60),
    "hours": (1, 2, 3, 6, 12, 24),
    "days": (1, 7, 14, 28, 56, 112),
}


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when, in steps of so many minutes, hours or days; the last goes on."""

    since: datetime
    until: datetime
    resolution: Resolution
    units: int = 1

    @property
    def step(self) -> timedelta:
        """How long one is."""
        return self.units * _UNITS[self.resolution]

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.until - self.since).total_seconds()

    @property
    def begins(self) -> list[datetime]:
        """When each step begins."""
        return [self.since + n * self.step for n in range(self._steps)]

    @property
    def end(self) -> datetime:
        """When its last step ends, soon."""
        return self.since + self._steps * self.step

    @property
    def _steps(self) -> int:
        return max(1, -((self.since - self.until) // self.step))

    def place(self, at: datetime) -> int:
        """In which step a time is: the first and the last have what lies outside."""
        return min(max(0, (at - self.since) // self.step), self._steps - 1)


def span_of(
    now: datetime, since: datetime | timedelta, *, points: int = MOST_STEPS, by_minute: bool = True
) -> Span:
    """The span that ends now, in steps that its length decides.

    since: or how far back. points: more steps than that are brought together. by_minute: False for
    a tenant, who is counted by hours and days. Raises UsageError for one that has not begun, or is
    longer than `LONGEST`.
    """
    now = now.astimezone(UTC)  # in a zone whose clock changes a day is no day
    back = since if isinstance(since, timedelta) else now - since
    if not timedelta(0) < back <= LONGEST:
        raise UsageError(
            f"{since} is not a valid beginning: it lies before now, at most {LONGEST.days} days."
        )
    resolution: Resolution = "minutes" if back <= _BY_MINUTE and by_minute else "hours"
    if back > _BY_HOUR:
        resolution = "days"
    begin = now - back
    several = (
        Span(_floor(begin, units * _UNITS[resolution]), now, resolution, units)
        for units in _SEVERAL[resolution]
    )
    *fine, coarsest = several
    return next((span for span in fine if len(span.begins) <= points), coarsest)


async def span_to_now(
    session: Session,
    since: datetime | timedelta,
    *,
    points: int = MOST_STEPS,
    by_minute: bool = True,
) -> Span:
    """As `span_of`, now being the database's."""
    now = await statistics.database_time(session.connection, session.sql)
    return span_of(now, since, points=points, by_minute=by_minute)


def _floor(at: datetime, step: timedelta) -> datetime:
    """The beginning of its step; weeks begin on Mondays."""
    return at - (at - datetime(2001, 1, 1, tzinfo=UTC)) % step
