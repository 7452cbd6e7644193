"""Cron expressions in a time zone, for schedules and chunks: the next times, and missed ones.

Owns the arithmetic of times. Promises: an expression has the meaning of Debian's cron, also at
changes of daylight saving time: times in the missing hour run right after it, times in the repeated
hour run once, and an hourly expression runs every hour that passes; catching up is bounded, however
long the outage was. Known limits: five fields, so a minute is the shortest interval; near a change
by half an hour (Lord Howe), or a change that leaves out a day, the library may miss times of the
first hour of a day, or give a time twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from inboxd.errors import UsageError

Missed = Literal["skip", "once", "all"]

# A run that was not sent within this time counts as missed.
LATE = timedelta(minutes=1)
# With "all", at most this many missed runs are sent, the newest ones.
MOST = 1_000

_FIELDS = 5
# Files in the system's zone folder that are not zones of a place.
_NO_ZONES = ("Factory", "localtime", "posixrules")


@dataclass(frozen=True, slots=True)
class Due:
    """The times to send for now, oldest first; cut: there were more than MOST."""

    times: tuple[datetime, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Cron:
    """A checked expression, such as "30 7 * * MON-FRI", in a zone, such as "Europe/Berlin"."""

    expression: str
    zone: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises UsageError for an invalid expression or zone, and for a time that never comes."""
        object.__setattr__(self, "_zone", _zone(self.zone))
        if len(self.expression.split()) != _FIELDS:
            raise UsageError(
                f"cron {self.expression!r} is wrong: give five fields, minute, hour, day of month, "
                'month and day of week, such as "30 7 * * MON-FRI".'
            )
        try:
            next(self._walk(datetime.now(UTC)))
        except CronSimError as error:
            raise UsageError(f"cron {self.expression!r} is wrong: {error}.") from None
        except StopIteration:
            raise UsageError(f"cron {self.expression!r} never matches: no date fits it.") from None

    def after(self, moment: datetime) -> datetime:
        """The next time after a moment, in UTC."""
        return next(self._walk(moment)).astimezone(UTC)

    def before(self, moment: datetime) -> datetime | None:
        """The last time before a moment, in UTC, or None."""
        last = next(self._walk(moment, reverse=True), None)
        return None if last is None else last.astimezone(UTC)

    def following(self, moment: datetime) -> Iterator[datetime]:
        """The times after a moment, one after the other, in UTC."""
        return (time.astimezone(UTC) for time in self._walk(moment))

    def due(self, since: datetime, now: datetime, missed: Missed) -> Due:
        """The times to send for, from `since` to `now`, both included.

        A time is missed when it passed more than LATE ago. The newest time that is not missed is
        always sent; "once" sends one run in place of all missed ones, and "all" sends each of them.
        """
        newest = self._before(now, since)
        if missed == "all":
            times = [time for time, _ in zip(newest, range(MOST + 1), strict=False)]
            return Due(tuple(reversed(times[:MOST])), cut=len(times) > MOST)
        last = next(newest, None)
        if last is None or (missed == "skip" and now - last > LATE):
            return Due(())
        return Due((last,))

    def _before(self, now: datetime, since: datetime) -> Iterator[datetime]:
        """The times from `now` back to `since`."""
        # The walk excludes its start, unless that lies after the full second.
        start = now.replace(microsecond=max(now.microsecond, 1))
        for time in self._walk(start, reverse=True):
            if time < since:
                return
            yield time.astimezone(UTC)

    def _walk(self, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        """The times beyond `start`.

        If it starts within the repeated hour of autumn, the library may first give a time of that
        hour's other pass, on the wrong side.
        """
        for time in CronSim(self.expression, start.astimezone(self._zone), reverse=reverse):
            # Compared in UTC: two times of one zone are compared by their wall clocks.
            moment = time.astimezone(UTC)
            if (moment < start) if reverse else (moment > start):
                yield time


def check_missed(missed: object) -> None:
    """Raise UsageError for an unknown policy."""
    if missed not in get_args(Missed):
        raise UsageError(f"missed={missed!r} is wrong: give one of {', '.join(get_args(Missed))}.")


def _zone(name: str) -> ZoneInfo:
    if name in _NO_ZONES or str(name).startswith("right/"):
        raise UsageError(
            f"zone {name!r} is not the zone of a place: it depends on the machine, or counts leap "
            "seconds; give a name such as Europe/Berlin, or UTC."
        )
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError, TypeError):
        raise UsageError(
            f"zone {name!r} is unknown: give a name such as Europe/Berlin; if the name is right, "
            "the system's tzdata is missing."
        ) from None
