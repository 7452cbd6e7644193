"""Spans of time and their steps, for numbers and charts.

A span ends now, by the database's clock, and begins with a whole step; steps are whole minutes,
hours or days of UTC, at most `MOST_STEPS`. Times after now, from a clock that was set back, are in
the last step.
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
# The longest spans by minute and by hour: some hundred steps, and less than 2,000 blocks.
_BY_MINUTE = timedelta(hours=6)
_BY_HOUR = timedelta(days=7)
# Units per step, to get few enough steps.
_SEVERAL: dict[Resolution, tuple[int, ...]] = {
    "minutes": (1, 2, 5, 10, 15, 30, 60),
    "hours": (1, 2, 3, 6, 12, 24),
    "days": (1, 7, 14, 28, 56, 112),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Each step has `units` minutes, hours or days; the last step has not ended."""

    since: datetime
    until: datetime
    resolution: Resolution
    units: int = 1

    @property
    def step(self) -> timedelta:
        return self.units * _UNITS[self.resolution]

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    @property
    def begins(self) -> list[datetime]:
        return [self.since + n * self.step for n in range(self._steps)]

    @property
    def end(self) -> datetime:
        """The end is in the future."""
        return self.since + self._steps * self.step

    @property
    def _steps(self) -> int:
        return max(1, -((self.since - self.until) // self.step))

    def place(self, at: datetime) -> int:
        """Times outside the span belong to its first or last step."""
        return min(max(0, (at - self.since) // self.step), self._steps - 1)


def span_of(
    now: datetime, since: datetime | timedelta, *, points: int = MOST_STEPS, by_minute: bool = True
) -> Span:
    """points: the most steps. by_minute: False for a tenant, counted by hours and days.

    Raises UsageError if it begins in the future, or is longer than `LONGEST`.
    """
    now = now.astimezone(UTC)  # with summer time, a local day may have 23 or 25 hours
    back = since if isinstance(since, timedelta) else now - since
    if not timedelta(0) < back <= LONGEST:
        raise UsageError(
            f"{since} is not a valid beginning: give a time in the past, at most {LONGEST.days} "
            "days ago."
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
    now = await statistics.database_time(session)
    return span_of(now, since, points=points, by_minute=by_minute)


def _floor(at: datetime, step: timedelta) -> datetime:
    """Steps of weeks begin on Mondays."""
    return at - (at - datetime(2001, 1, 1, tzinfo=UTC)) % step
