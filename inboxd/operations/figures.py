"""Throughput in a span of time, by type and by lane: numbers, success, durations.

Promises: the data read is bounded; parts add up to their whole. Known limit: statistics are some
seconds old (`AGE`), without the last seconds of a killed worker.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from inboxd.operations.labels import Label, type_labels
from inboxd.operations.spans import Span, span_to_now
from inboxd.operations.throughput import Throughput, throughput_of
from inboxd.operations.totals import Exactness
from inboxd.store import samples, statistics
from inboxd.store.session import Session
from inboxd.store.statistics import ENDED, EVERYTHING, FigureFilter, Figures, Lately
from inboxd.telemetry.tally import PERIOD, Kind

# The largest age of the newest statistics, while the database is available.
AGE = timedelta(seconds=PERIOD)
_HOUR = timedelta(hours=1)
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Part:
    """name: None for the sum of `others` types or lanes. trend: executions in each step."""

    name: str | None
    title: str | None
    throughput: Throughput
    trend: tuple[int, ...]
    others: int = 0


@dataclass(frozen=True, slots=True)
class ArrivalTrend:
    """seconds: the time that samples cover. trend: None: unknown."""

    rows: int
    seconds: float
    trend: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Parts add up to `whole`, most executions first. ended: rows that ended in each step."""

    kind: Kind
    whole: Part
    types: tuple[Part, ...]
    lanes: tuple[Part, ...]
    arrived: ArrivalTrend
    ended: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """arrived: None: unknown in this step."""

    kind: Kind
    span: Span
    arrived: tuple[int | None, ...]
    ended: tuple[int, ...]


async def summaries(
    session: Session, span: Span, most: int, tenant: str | None = None
) -> list[Summary]:
    """most: types, and lanes, of each kind. It runs three statements, and one per kind."""
    of = FigureFilter(tenant=tenant)
    found = await statistics.read(
        *(session, span.resolution, span.since),
        apart=("kind", "lane", "type"),
        of=of,
    )
    apart = {kind: _Apart(kind, found, most) for kind in KINDS}
    trends = await _trends(session, span, apart.values(), of)
    unknown = ArrivalTrend(0, 0.0, (None,) * len(span.begins))  # tenants are not sampled
    arrived = dict.fromkeys(KINDS, unknown) if tenant else await arrivals(session, span)
    return [
        await _summary(session, span, each, trends, arrived[kind]) for kind, each in apart.items()
    ]


async def exactness_of(session: Session, tenant: str | None) -> Exactness:
    """Return how exact statistics are: rows of a tenant without a place are missing."""
    if tenant is None or await statistics.is_counted(session, tenant):
        return Exactness.ABOUT
    return Exactness.AT_LEAST


async def points(session: Session, span: Span, of: FigureFilter) -> list[Throughput]:
    steps = [Figures(at, None, None, None) for at in span.begins]
    for each in await statistics.read(
        *(session, span.resolution, span.since), apart=("at",), of=of
    ):
        steps[span.place(each.at or span.since)].add(each)
    ends = [*span.begins[1:], span.until]
    return [
        throughput_of(each, (end - begin).total_seconds())
        for each, begin, end in zip(steps, span.begins, ends, strict=True)
    ]


async def last_hour(session: Session, kind: Kind, lane: str) -> Lately:
    of = FigureFilter(kind, lane)
    return await statistics.lately(session, _HOUR, apart=("type",), of=of)


def parts_by_type(found: Lately, labels: Mapping[str, Label]) -> list[Part]:
    """The type with most executions comes first."""
    seconds = (found.until - found.since).total_seconds()
    done = sorted((each for each in found.figures if each.executed), key=lambda one: -one.executed)
    return [
        Part(name, labels[name].title, throughput_of(each, seconds), ())
        for each in done
        for name in (_type_of(each),)
    ]


async def flows(session: Session, back: timedelta) -> list[Flow]:
    span = await span_to_now(session, back)
    trends = await _trends(session, span, ())
    arrived = await arrivals(session, span)
    nothing = [[0] * len(span.begins)] * 2
    return [
        Flow(kind, span, arrived[kind].trend, tuple(trends.get((kind, "kind", None), nothing)[1]))
        for kind in KINDS
    ]


async def arrivals(session: Session, span: Span) -> dict[Kind, ArrivalTrend]:
    steps = len(span.begins)
    rows = await samples.series(session, span.since, span.end, steps)
    found: dict[Kind, ArrivalTrend] = {}
    for kind in KINDS:
        trend: list[int | None] = [None] * steps
        seconds = 0.0
        for row in rows:
            if (count := row[f"{kind}s_arrived"]) is not None:
                place = span.place(row["at"])
                trend[place] = (trend[place] or 0) + count
                seconds += row["seconds"] or 0.0
        found[kind] = ArrivalTrend(sum(each or 0 for each in trend), seconds, tuple(trend))
    return found


# ------------------------------------------------------------------------------------- computation


@dataclass(slots=True)
class _Apart:
    """The `most` largest types and lanes, and the sum of the others."""

    kind: Kind
    found: Iterable[Figures]
    most: int
    whole: Figures = field(init=False)
    by: dict[str, list[Figures]] = field(init=False)
    others: dict[str, list[Figures]] = field(init=False)

    def __post_init__(self) -> None:
        mine = [each for each in self.found if each.kind == self.kind]
        self.whole = _sum(mine)
        self.by, self.others = {}, {}
        for what, name in (("type", _type_of), ("lane", _lane_of)):
            ordered = sorted(_by(mine, name).values(), key=lambda one: -one.executed)
            done = [each for each in ordered if each.executed]
            self.by[what], self.others[what] = done[: self.most], done[self.most :]

    def names(self, what: str) -> list[tuple[str, str]]:
        return [(self.kind, getattr(each, what)) for each in self.by[what]]


# Keys: kind, "type" or "lane", and its name (None: all others).
_Trends = dict[tuple[str, str, str | None], list[list[int]]]


async def _trends(
    session: Session, span: Span, apart: Iterable[_Apart], of: FigureFilter = EVERYTHING
) -> _Trends:
    apart = list(apart)
    lanes = [name for each in apart for name in each.names("lane")]
    types = [name for each in apart for name in each.names("type")]
    given = (session, span.resolution, span.since)
    rows: Iterable[Any]
    if of.tenant is None:
        rows = await statistics.executions(*given, lanes=lanes, types=types)
    else:
        figures = await statistics.read(*given, apart=("at", "kind", "lane", "type"), of=of)
        rows = _executions(figures, {*lanes}, {*types})
    found: _Trends = {}
    for row in rows:
        key = (row["kind"], row["what"], row["name"])
        counts = found.setdefault(key, [[0] * len(span.begins) for _ in range(2)])
        place = span.place(row["at"])
        counts[0][place] += row["executions"]
        counts[1][place] += row["ended"]
    return found


def _executions(
    figures: Iterable[Figures], lanes: Container[object], types: Container[object]
) -> Iterator[dict[str, Any]]:
    """Make the rows of `executions_{resolution}.sql`: a tenant's figures are few."""
    for each in figures:
        lane = each.lane if (each.kind, each.lane) in lanes else None
        type_ = each.type if (each.kind, each.type) in types else None
        counts = {"executions": each.executed, "ended": sum(map(each.outcome, ENDED))}
        for what, name in (("kind", None), ("lane", lane), ("type", type_)):
            yield {"at": each.at, "kind": each.kind, "what": what, "name": name, **counts}


async def _summary(
    session: Session, span: Span, apart: _Apart, trends: _Trends, arrived: ArrivalTrend
) -> Summary:
    kind = apart.kind
    nothing = [[0] * len(span.begins) for _ in range(2)]
    labels = await type_labels(session, kind, {name for _, name in apart.names("type")})

    def trend(what: str, name: str | None) -> list[list[int]]:
        return trends.get((kind, what, name), nothing)

    def parts(what: Literal["type", "lane"]) -> tuple[Part, ...]:
        shown = [
            Part(
                name,
                labels[name].title if what == "type" else None,
                throughput_of(each, span.seconds),
                tuple(trend(what, name)[0]),
            )
            for each in apart.by[what]
            if (name := getattr(each, what)) is not None
        ]
        others = apart.others[what]
        if others:
            done = throughput_of(_sum(others), span.seconds)
            shown.append(Part(None, None, done, tuple(trend(what, None)[0]), len(others)))
        return tuple(shown)

    executions, ended = trend("kind", None)
    whole = Part(None, None, throughput_of(apart.whole, span.seconds), tuple(executions))
    return Summary(kind, whole, parts("type"), parts("lane"), arrived, tuple(ended))


def _sum(figures: Iterable[Figures]) -> Figures:
    whole = Figures(None, None, None, None)
    for each in figures:
        whole.add(each)
    return whole


def _type_of(figures: Figures) -> str:
    return figures.type or ""


def _lane_of(figures: Figures) -> str:
    return figures.lane or ""


def _by(figures: Sequence[Figures], name: Callable[[Figures], str]) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for each in figures:
        key = name(each)
        own = found.setdefault(key, Figures(None, each.kind, _lane_of(each), _type_of(each)))
        own.add(each)
    return found


def hour_document(parts: Iterable[Part]) -> list[dict[str, Any]]:
    found = [{"type": part.name, **part_document(part)} for part in parts]
    for each in found:
        del each["trend"]
    return found


def part_document(part: Part) -> dict[str, Any]:
    done = part.throughput
    shares = {name: getattr(done, name) for name in ("rate", "success", "success_again")}
    return {
        **({} if part.title is None else {"title": part.title}),
        **({"others": part.others} if part.others else {}),
        **asdict(done),
        **shares,
        "trend": part.trend,
    }
