"""Queues and topics: their waiting rows, their throughput, and their blocked keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, cast

from inboxd.admin.screens import addresses
from inboxd.admin.screens.charts import Curve, top_of
from inboxd.admin.screens.lately import lane_trends
from inboxd.admin.screens.pages.chart_rows import DEAD, DONE, FAILED, WAITING, ChartRows
from inboxd.admin.screens.pages.markers import markers_of
from inboxd.admin.screens.pages.paging import ListPart, part_by_name, part_of
from inboxd.admin.screens.pages.queries import one_of
from inboxd.admin.screens.pages.titles import labels_of, titles_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import (
    counted,
    database_now,
    overview,
    paused_as,
    pauses,
    whole_inbox,
)
from inboxd.errors import UnknownName
from inboxd.operations import rates
from inboxd.operations.lanes import (
    NOTHING_COUNTED,
    KnownLane,
    one_queue,
    one_topic,
    queue_list,
)
from inboxd.operations.rates import Span
from inboxd.store import chunks, lines, samples, topics
from inboxd.store.statistics import FigureFilter, Figures, Lately

Place = Literal["queue", "topic"]

_KINDS: Mapping[Place, Literal["event", "command"]] = {"queue": "command", "topic": "event"}
# Blocked keys, or chunks, on a page.
_KEYS = 50
# How long the times of samples are used again.
_FRESH_SECONDS = 15.0


async def _queues(visit: PageVisit) -> ScreenPage:
    document = await queue_list(visit.session, visit.settings, await counted(visit))
    part = part_of(document["queues"], lambda row: row["queue"], visit.query)
    return await _list(visit, "queue", part, document["counted_to"])


async def _topics(visit: PageVisit) -> ScreenPage:
    there = await counted(visit)
    read = partial(topics.listed, visit.session, there.of("topic"), there.lines)
    part = await part_by_name(read, visit.query, name="topic")
    return await _list(visit, "topic", part, there.to)


async def _list(visit: PageVisit, place: Place, part: ListPart, counted_to: int) -> ScreenPage:
    name = f"{place}s"
    now, found = await database_now(visit), await overview(visit)
    hour = await rates.done(
        visit.session, "hour", now, of=FigureFilter(kind=_KINDS[place]), apart=("lane",)
    )
    told = {each.lane: rates.told(each, "hour", now) for each in hour}
    nothing = rates.told(rates.summed([]), "hour", now)
    minutes = rates.steps("hour", now)
    taken = [row["at"] for row in await _samples(visit, minutes) or ()]
    trends = await lane_trends(visit.session, minutes, taken, _one_place)
    shown = {
        "part": part,
        "sample": found["sample"],
        "rates": {row[place]: told.get(row[place], nothing) for row in part.rows},
        "trends": {row[place]: trends.of(_KINDS[place], row[place]) for row in part.rows},
        "paused": await pauses(visit, place, {row[place] for row in part.rows}),
    }
    document = {"counted_to": counted_to, name: part.rows} | _next(part.after)
    return ScreenPage(f"{name}.html", document, shown)


def _next(after: str | None) -> dict[str, str]:
    return {} if after is None else {"next": after}


async def _queue(visit: PageVisit) -> ScreenPage:
    name = visit.path["name"]
    done = await _done(visit, "queue", name)
    there = await counted(visit)
    known = KnownLane(done.used, done.hour)
    show = partial(one_queue, visit.session, visit.settings, name, _KEYS)
    try:
        document, _ = await show(there, known, labels_of(visit))
    except UnknownName:  # the counts may be older than the first row of the queue
        document, _ = await show(NOTHING_COUNTED, known, labels_of(visit))
    return ScreenPage("queue.html", document, await _shown(visit, "queue", done))


async def _topic(visit: PageVisit) -> ScreenPage:
    name = visit.path["name"]
    done = await _done(visit, "topic", name)
    there = await counted(visit)
    known = KnownLane(done.used, done.hour)
    show = partial(one_topic, visit.session, name)
    try:
        document, _ = await show(there, known, labels_of(visit))
    except UnknownName:  # the counts may be older than the first event of the topic
        document, _ = await show(NOTHING_COUNTED, known, labels_of(visit))
    shown = await _shown(visit, "topic", done)
    if document["mode"] == "batch":
        shown["arrived_alone"], shown["chunks"] = await chunks.waiting(visit.session, name, _KEYS)
    elif document["blocked"] or document["lined_up"]:
        shown["blocked_lines"] = await lines.blocked(visit.session, name, _KEYS)
    return ScreenPage("topic.html", document, {"chunks": None, "blocked_lines": []} | shown)


@dataclass(frozen=True, slots=True)
class LaneDone:
    """used: rows used it while statistics are kept, or it is `default`."""

    name: str
    span: Span
    now: datetime
    figures: list[Figures]
    hour: Lately
    used: bool


async def _done(visit: PageVisit, place: Place, name: str) -> LaneDone:
    span = cast("Span", one_of(visit.query, "span", tuple(rates.SPANS)))
    now = await database_now(visit)
    of = FigureFilter(kind=_KINDS[place], lane=name)
    minutes = await rates.done(visit.session, "hour", now, of=of, apart=("at", "type"))
    figures = minutes
    if span == "day":
        figures = await rates.done(visit.session, "day", now, of=of, apart=("at", "type"))
    hour = Lately(rates.steps("hour", now)[0], now, rates.by_type(minutes))
    waits = any(lane.get(place) == name for lane in (await overview(visit))["lanes"])
    used = bool(figures) or waits or name == "default"
    used = used or await rates.ever(visit.session, now, of)
    return LaneDone(name, span, now, figures, hour, used)


async def _shown(visit: PageVisit, place: Place, done: LaneDone) -> dict[str, Any]:
    name, span, now, figures = done.name, done.span, done.now, done.figures
    found, steps = await overview(visit), rates.steps(span, now)
    by_type = {each.type or "": rates.told(each, span, now) for each in rates.by_type(figures)}
    throughput = [
        Curve("Done", "good", _over(steps, figures, ("succeeded",)), filled=True, rows=DONE),
        Curve(
            *("Failed or retried", "bad", _over(steps, figures, ("failed", "retried"))),
            rows=FAILED,
        ),
    ]
    backlog = await _backlog(visit, (_KINDS[place], name, None), steps)
    waiting = [lane for lane in found["lanes"] if lane.get(place) == name]
    table = f"{_KINDS[place]}s"
    rows = {table: partial(addresses.with_query, f"/{table}", [(place, name)])}
    return {
        "name": name,
        "sample": found["sample"],
        "span": span,
        "steps": steps,
        "throughput": throughput,
        "backlog": backlog,
        "top_of": top_of,
        "markers": await markers_of(visit, steps[:-1]),
        "rows_of": ChartRows(steps, rows),
        "waiting_of": ChartRows(steps, rows, "waiting"),
        "rate": rates.told(rates.summed(figures), span, now),
        "types_done": by_type,
        "waiting_types": waiting,
        "type_titles": await titles_of(
            visit, _KINDS[place], {*by_type, *(lane["type"] for lane in waiting)}
        ),
        "paused_as": await paused_as(visit, place, name),
        "stopped": [row for row in found["breakers"] if f"{place} {name}" in row["uses"]],
    }


def _over(
    steps: Sequence[datetime], figures: Sequence[Any], outcomes: Sequence[str]
) -> list[float | None]:
    places = {at: place for place, at in enumerate(steps)}
    found: list[float | None] = [0] * len(steps)
    for each in figures:
        if (place := places.get(each.at)) is not None:
            found[place] = (found[place] or 0) + sum(map(each.outcome, outcomes))
    return found


async def _backlog(
    visit: PageVisit, lane: tuple[str, str, str | None], steps: Sequence[datetime]
) -> list[Curve]:
    """A step without a sample has no number."""
    taken = await _samples(visit, steps)
    nothing = [{"at": row["at"], "waiting": 0, "failed": 0} for row in taken or ()]
    step = steps[1] - steps[0]
    waiting: list[float | None] = [None] * len(steps)
    failed: list[float | None] = [None] * len(steps)
    for row in (*nothing, *await samples.lane_series(visit.session, lane, *_within(steps))):
        place = (row["at"] - steps[0]) // step
        if 0 <= place < len(steps):
            waiting[place] = row["waiting"]
            failed[place] = row["failed"]
    return [
        Curve("Waiting", "wait", waiting, filled=True, rows=WAITING),
        Curve("Dead letters", "bad", failed, rows=DEAD),
    ]


async def _samples(visit: PageVisit, steps: Sequence[datetime]) -> list[dict[str, Any]] | None:
    """None: they could not be read."""
    read = partial(samples.series, visit.session, *_within(steps))
    key = ("samples", *_within(steps))
    return await visit.shared.get(visit.session, key, _FRESH_SECONDS, read)


def _within(steps: Sequence[datetime]) -> tuple[datetime, datetime, int]:
    return steps[0], steps[-1] + (steps[1] - steps[0]), len(steps)


def _one_place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["kind"], row["place"]


SCREENS = (
    whole_inbox("/queues", _queues),
    whole_inbox("/queues/{name:path}", _queue),
    whole_inbox("/topics", _topics),
    whole_inbox("/topics/{name:path}", _topic),
)
