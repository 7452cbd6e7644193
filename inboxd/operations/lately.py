"""Recent throughput of a list: in each minute or hour, and by type.

Promises that it reads statistics, never rows, and returns every unit of the span, even without
work.
Known limits: statistics are some seconds old; tenants are counted by the hour, so an hour of a
tenant becomes a day.
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
_ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """Executions in one unit of time, which begins `at`, by outcome."""

    at: datetime
    succeeded: int
    failed: int
    retried: int


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """Executions in a span. types: number of ended rows of each, most first."""

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
    """Return the recent throughput of a type and a tenant; None: of any."""
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
    types = [(each.type or "", sum(map(each.outcome, _ENDED))) for each in by_type]
    return SpanFigures(span, units, sorted((t for t in types if t[1]), key=lambda t: (-t[1], t[0])))


def _beginning(at: datetime, unit: timedelta) -> datetime:
    """Round down to the minute, hour or day, in UTC."""
    at = at.astimezone(UTC)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + (at - midnight) // unit * unit
