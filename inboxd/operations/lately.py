"""Recent throughput of a list, for its charts: in each step of a span, and by type.

It reads statistics, some seconds old. Known limit: tenants are counted by the hour, so for a tenant
the span of an hour becomes a day.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from inboxd.store import statistics
from inboxd.store.session import Session
from inboxd.store.statistics import ENDED, FigureFilter, Resolution
from inboxd.store.wakeups import HotTable

Span = Literal["hour", "day", "week", "quarter"]

# The resolution of the statistics from which a span is read, its step, and its length.
_SPANS: Mapping[Span, tuple[Resolution, timedelta, timedelta]] = {
    "hour": ("minutes", timedelta(minutes=1), timedelta(hours=1)),
    "day": ("hours", timedelta(hours=1), timedelta(days=1)),
    "week": ("hours", timedelta(hours=3), timedelta(days=7)),
    "quarter": ("days", timedelta(days=1), timedelta(days=90)),
}
SPANS = tuple(_SPANS)
# Outcomes that a step counts.
_SHOWN = ("succeeded", "failed", "retried")


@dataclass(frozen=True, slots=True)
class UnitFigures:
    at: datetime
    succeeded: int
    failed: int
    retried: int


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """types: number of ended rows of each, most first."""

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
    if tenant is not None and span == "hour":
        span = "day"
    of = FigureFilter(kind=table.removesuffix("s"), type=type_, tenant=tenant)
    begins = steps_of(span, await statistics.database_time(session))
    given = (session, resolution_of(span), begins[0])
    by_time = await statistics.read(*given, apart=("at",), of=of)
    by_type = await statistics.read(*given, apart=("type",), of=of)
    counts = [Counter[str]() for _ in begins]
    for each in by_time:
        place = ((each.at or begins[0]) - begins[0]) // (begins[1] - begins[0])
        if place < len(begins):
            counts[place].update({name: each.outcome(name) for name in _SHOWN})
    units = [
        UnitFigures(at, *(found[name] for name in _SHOWN))
        for at, found in zip(begins, counts, strict=True)
    ]
    types = [(each.type or "", sum(map(each.outcome, ENDED))) for each in by_type]
    return SpanFigures(span, units, sorted((t for t in types if t[1]), key=lambda t: (-t[1], t[0])))


def steps_of(span: Span, now: datetime) -> list[datetime]:
    """The span ends now; the last step is the current one."""
    _, step, length = _SPANS[span]
    now = now.astimezone(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    last = midnight + (now - midnight) // step * step
    count = length // step
    return [last - (count - 1 - n) * step for n in range(count)]


def resolution_of(span: Span) -> Resolution:
    return _SPANS[span][0]
