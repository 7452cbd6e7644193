"""What was done lately, as a list draws it: in each minute or hour, and of which types.

Promises that a span is read from what was counted, never from rows, and that each of its units is
told, also where nothing was done. Known limits: what workers counted last is some seconds behind;
tenants are counted by the hour, so an hour of a tenant is told as a day.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from inboxd.store import statistics
from inboxd.store.session import Session
from inboxd.store.statistics import FigureFilter, Resolution
from inboxd.store.wakeups import HotTable

Span = Literal["hour", "day"]

_DAY = timedelta(days=1)
_UNITS: Mapping[Span, tuple[Resolution, timedelta, timedelta]] = {
    "hour": ("minutes", timedelta(minutes=1), timedelta(hours=1)),
    "day": ("hours", timedelta(hours=1), _DAY),
}
SPANS = tuple(_UNITS)
# What came to an end.
_ENDS = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """What was done in one unit of time, which begins `at`; retried: to be run again."""

    at: datetime
    succeeded: int
    failed: int
    retried: int


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """What was done in a span. types: how many of each came to an end, most first."""

    span: Span
    units: list[UnitFigures]
    types: list[tuple[str, int]]


async def done_lately(
    session: Session,
    table: HotTable,
    span: Span,
    *,
    type_: str | None = None,
    tenant: str | None = None,
) -> SpanFigures:
    """What was done with rows of a type, of a tenant; None: of any."""
    if tenant is not None and span == "hour":
        span = "day"
    resolution, unit, back = _UNITS[span]
    of = FigureFilter(kind=table.removesuffix("s"), type=type_, tenant=tenant)
    now = await statistics.database_time(session.connection, session.sql)
    first = _beginning(now, unit) - back + unit
    given = (session.connection, session.sql, resolution, first)
    by_time = {
        each.at.astimezone(UTC): each
        for each in await statistics.read(*given, apart=("at",), of=of)
        if each.at is not None
    }
    by_type = await statistics.read(*given, apart=("type",), of=of)
    units = []
    for n in range(round(back / unit)):
        at = first + n * unit
        found = by_time.get(at)
        counts = (
            (0, 0, 0)
            if found is None
            else tuple(map(found.outcome, ("succeeded", "failed", "retried")))
        )
        units.append(UnitFigures(at, *counts))
    types = [(each.type or "", sum(map(each.outcome, _ENDS))) for each in by_type]
    return SpanFigures(span, units, sorted((t for t in types if t[1]), key=lambda t: (-t[1], t[0])))


def _beginning(at: datetime, unit: timedelta) -> datetime:
    """Of the minute, hour or day that it is in, in UTC."""
    at = at.astimezone(UTC)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (at - midnight) // unit * unit
