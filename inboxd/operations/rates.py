"""Throughput of a lane or a type in the last hour and the last day.

It reads statistics, some seconds old. Known limits: a day is the last 24 hours with the current
one; a percentile is in the same bucket as the true one.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from inboxd.model.durations import Durations
from inboxd.store import statistics
from inboxd.store.session import Session
from inboxd.store.statistics import Dimension, FigureFilter, Figures, Resolution

Span = Literal["hour", "day"]
SPANS: Mapping[Span, tuple[Resolution, timedelta, int]] = {
    "hour": ("minutes", timedelta(minutes=1), 61),
    "day": ("hours", timedelta(hours=1), 24),
}
_LONG = timedelta(days=90)
_OUTCOMES = ("succeeded", "retried", "deferred", "failed", "cancelled", "ignored", "duplicate")
_PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def steps(span: Span, now: datetime) -> list[datetime]:
    """The last one has not ended. An hour has 61 minutes, as in `statistics.lately`."""
    _, step, count = SPANS[span]
    last = now.astimezone(UTC).replace(second=0, microsecond=0)
    if span == "day":
        last = last.replace(minute=0)
    return [last - (count - 1 - n) * step for n in range(count)]


async def done(
    session: Session,
    span: Span,
    now: datetime,
    *,
    of: FigureFilter = statistics.EVERYTHING,
    apart: Sequence[Dimension] = (),
) -> list[Figures]:
    since = steps(span, now)[0]
    resolution = SPANS[span][0]
    return await statistics.read(session, resolution, since, apart=apart, of=of)


async def ever(session: Session, now: datetime, of: FigureFilter) -> bool:
    """It looks at the days for which statistics by type are kept."""
    since = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - _LONG
    found = await statistics.read(session, "days", since, apart=("kind",), of=of)
    return bool(found)


def summed(found: Sequence[Figures]) -> Figures:
    total = Figures(None, None, None, None)
    for each in found:
        total.add(each)
    return total


def by_type(found: Sequence[Figures]) -> list[Figures]:
    sums: dict[str, Figures] = {}
    for each in found:
        own = sums.setdefault(each.type or "", Figures(None, None, None, each.type))
        own.add(each)
    return [sums[type_] for type_ in sorted(sums)]


def told(found: Figures, span: Span, now: datetime) -> dict[str, Any]:
    """Return JSON values; durations are in seconds."""
    since = steps(span, now)[0]
    seconds = max((now - since).total_seconds(), 1.0)
    return {
        "span": span,
        "since": since,
        "per_second": found.succeeded / seconds,
        **{name: found.outcome(name) for name in _OUTCOMES},
        "after_retry": found.outcome("succeeded", "retry"),
        "after_replay": found.outcome("succeeded", "replay"),
        "failed_again": found.outcome("failed", "retry", "replay"),
        "run": _durations(found.run),
        "wait": _durations(found.wait),
        "completion": _durations(found.completion),
    }


def _durations(found: Durations) -> dict[str, float | None]:
    if not (count := found.count):
        return dict.fromkeys(("mean", "p50", "p95", "p99", "maximum"))
    shares = {name: found.percentile(share) for name, share in _PERCENTILES}
    return {"mean": found.total / count, **shares, "maximum": found.maximum}
