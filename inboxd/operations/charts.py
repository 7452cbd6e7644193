"""One measure over time, for a chart.

Promises: None, never 0, stands for an unknown point. Known limits: arrivals are known only for all
events or all commands, waiting rows of a type only within one lane; neither is known for a tenant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from inboxd.errors import UsageError
from inboxd.model.measures import Measure, Rank
from inboxd.operations.figures import arrivals, exactness_of, points
from inboxd.operations.labels import type_labels
from inboxd.operations.spans import Span, span_to_now
from inboxd.operations.throughput import Percentiles, Throughput
from inboxd.operations.totals import Exactness
from inboxd.store import samples
from inboxd.store.session import Session
from inboxd.store.statistics import FigureFilter
from inboxd.telemetry.tally import Kind

_DONE: dict[Measure, Callable[[Throughput], int]] = {
    "succeeded": lambda done: done.succeeded,
    "failed": lambda done: done.failed,
    "retried": lambda done: done.retried,
}
_TOOK: dict[Measure, Callable[[Throughput], Percentiles]] = {
    "run-time": lambda done: done.run,
    "wait-time": lambda done: done.wait,
    "completion-time": lambda done: done.completion,
}
# Columns of samples.
_SAMPLED: dict[Measure, str] = {"backlog": "waiting", "dead-letters": "failed", "oldest": "oldest"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """lane: a topic, or a queue; rank: for measures that are times."""

    kind: Kind
    measure: Measure
    type: str | None = None
    lane: str | None = None
    tenant: str | None = None
    rank: Rank = "p95"

    @property
    def unit(self) -> Literal["rows", "seconds"]:
        return "seconds" if self.measure in _TOOK or self.measure == "oldest" else "rows"

    @property
    def adds_up(self) -> bool:
        """Each point is the count of its step."""
        return self.measure in _DONE or self.measure == "arrivals"

    @property
    def sampled(self) -> bool:
        return self.measure in _SAMPLED or self.measure == "arrivals"


@dataclass(frozen=True, slots=True)
class Chart:
    of: Drawn
    title: str | None
    span: Span
    points: tuple[float | None, ...]
    exactness: Exactness = Exactness.ABOUT

    @property
    def known(self) -> list[float]:
        return [each for each in self.points if each is not None]


async def chart(
    session: Session, of: Drawn, since: datetime | timedelta, most_points: int
) -> Chart:
    """Raises UsageError for counts that do not exist."""
    if of.sampled and of.tenant is not None:
        raise UsageError(f"{of.measure} of a tenant is not counted: draw `succeeded`, or a time.")
    if of.measure == "arrivals" and (of.type or of.lane):
        raise UsageError(
            f"arrivals are counted of all {of.kind}s together: for one type or lane, draw "
            "`succeeded` and `backlog`."
        )
    if of.measure in _SAMPLED and of.type and not of.lane:
        lane = "topic" if of.kind == "event" else "queue"
        raise UsageError(f"{of.measure} of a type is counted per {lane}: give the {lane} too.")
    by_minute = of.tenant is None
    span = await span_to_now(session, since, points=most_points, by_minute=by_minute)
    title = None
    if of.type is not None:
        title = (await type_labels(session, of.kind, {of.type}))[of.type].title
    drawn = tuple(await _points(session, of, span))
    return Chart(of, title, span, drawn, await exactness_of(session, of.tenant))


async def _points(session: Session, of: Drawn, span: Span) -> Sequence[float | None]:
    if of.measure == "arrivals":
        return (await arrivals(session, span))[of.kind].trend
    if of.measure in _SAMPLED:
        return await _sampled(session, of, _SAMPLED[of.measure], span)
    done = await points(session, span, FigureFilter(of.kind, of.lane, of.type, of.tenant))
    if of.measure in _DONE:
        return [_DONE[of.measure](each) for each in done]
    return [getattr(_TOOK[of.measure](each), of.rank) for each in done]


async def _sampled(session: Session, of: Drawn, column: str, span: Span) -> list[float | None]:
    """Return the maximum of each step; 0 if a sample was taken and the lane had no rows."""
    steps = len(span.begins)
    found: list[float | None] = [None] * steps
    whole = await samples.series(session, span.since, span.end, steps)
    if of.lane is None:
        rows, name = whole, f"{of.kind}s_{column}"
    else:
        for row in whole:
            found[span.place(row["at"])] = 0
        lane = (of.kind, of.lane, of.type)
        rows = await samples.lane_series(session, lane, span.since, span.end, steps)
        name = column
    for row in rows:
        place = span.place(row["at"])
        found[place] = max(found[place] or 0, row[name] or 0)
    return found
