"""`inboxd chart`: one measure over time, in the terminal or in a file (the extra `chart`)."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli import columns, plots
from inboxd.cli.completion import declared
from inboxd.cli.options import Looking, Tenant
from inboxd.cli.output import on_terminal, show, terminal_width
from inboxd.errors import UsageError
from inboxd.model.measures import Measure, Rank
from inboxd.model.moments import read_back
from inboxd.model.wording import plural, short_number
from inboxd.model.wording import span as span_of_time

if TYPE_CHECKING:
    from inboxd.operations.charts import Chart, Drawn
    from inboxd.operations.spans import Span

_HEIGHT_LINES = 12
# Widths in characters: the maximum, in a pipe, and of the scale beside the plot.
_MOST_WIDTH = 120
_PIPE_WIDTH = 80
_SCALE_WIDTH = 10
_FORMATS = (".svg", ".png")


Kind = Annotated[
    Literal["events", "commands"],
    typer.Argument(metavar="KIND", help="Which rows: events or commands.", show_default=False),
]
Measured = Annotated[
    Measure,
    typer.Argument(
        metavar="MEASURE",
        help="succeeded, failed, retried: rows; run-time, wait-time, completion-time: "
        "percentiles; arrivals; backlog; dead-letters; oldest: the age of the oldest due row.",
    ),
]
Since = Annotated[
    str, typer.Option(metavar="TIME", help="Start of the chart: 2h, 7d, or an ISO 8601 time.")
]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only this type.", show_default=False)
]
Topic = Annotated[
    str | None,
    typer.Option(
        metavar="TOPIC",
        help="Only events of this topic.",
        show_default=False,
        autocompletion=declared("topic"),
    ),
]
Queue = Annotated[
    str | None,
    typer.Option(
        metavar="QUEUE",
        help="Only commands of this queue.",
        show_default=False,
        autocompletion=declared("queue"),
    ),
]
Percentile = Annotated[
    Rank, typer.Option(metavar="p50|p95|p99", help="Percentile of the measures ending in -time.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Draw into this .svg or .png file, not to the terminal; needs pip install "
        "'inboxd[chart]'.",
        show_default=False,
    ),
]


def chart(
    of: Kind,
    measure: Measured = "succeeded",
    since: Since = "1d",
    type: Type = None,
    topic: Topic = None,
    queue: Queue = None,
    *,
    tenant: Tenant = None,
    percentile: Percentile = "p95",
    output: Output = None,
    given: Looking,
) -> None:
    """Draw a chart of finished, arriving or waiting rows, or of the time that rows took."""
    from inboxd.operations.charts import Drawn
    from inboxd.operations.charts import chart as read

    draw = None if output is None else _drawing(output)
    kind: Literal["event", "command"] = "event" if of == "events" else "command"
    lane = _lane(kind, topic, queue)
    drawn = Drawn(kind, measure, type=type, lane=lane, tenant=tenant, rank=percentile)
    back, most = read_back(since), _most_points(given, output)
    found = given.ask(lambda session: read(session, drawn, back, most))
    if output is None or draw is None:
        given.print(_document(found), ["\n".join(_lines(found))])
    else:
        draw(found, _title(found), output)
        given.tell(_document(found) | {"file": str(output)}, f"Chart written to {output}")


def _lane(kind: Literal["event", "command"], topic: str | None, queue: str | None) -> str | None:
    wrong, lane = (queue, topic) if kind == "event" else (topic, queue)
    if wrong is not None:
        raise UsageError("--topic is for events, --queue for commands.")
    return lane


def _drawing(file: Path) -> "Callable[[Chart, str, Path], None]":
    if file.suffix not in _FORMATS:
        raise UsageError(f"{file} is not a valid chart file: its name must end in .svg or .png.")
    try:
        from inboxd.cli.chart_files import draw
    except ModuleNotFoundError:
        raise UsageError(
            "a chart file needs matplotlib, which is not installed: pip install 'inboxd[chart]'."
        ) from None
    return draw


def _most_points(given: Looking, output: Path | None) -> int:
    from inboxd.operations.spans import MOST_STEPS

    if given.json or output is not None:
        return MOST_STEPS
    return max(10, _width() - _SCALE_WIDTH)


def _width() -> int:
    return min(_MOST_WIDTH, terminal_width()) if on_terminal() else _PIPE_WIDTH


def _title(chart: "Chart") -> str:
    of = chart.of
    what = of.measure.replace("-", " ")
    told = f"{of.kind.capitalize()}s: {what}"
    if of.unit == "rows" and of.adds_up:
        told += f" {_each(chart.span)}"
    elif of.unit == "seconds" and of.measure != "oldest":
        told += f", {of.rank}"
    if of.lane is not None:
        told += f", {'topic' if of.kind == 'event' else 'queue'} {of.lane}"
    if of.type is not None:
        own = columns.own_title(of.type, chart.title)
        told += f", {of.type}" + (f" ({own})" if own else "")
    if of.tenant is not None:
        told += f", tenant {of.tenant}"
    return told


def _each(span: "Span") -> str:
    unit = span.resolution.removesuffix("s")
    article = "an" if unit == "hour" else "a"
    return f"{article} {unit}" if span.units == 1 else f"in {plural(span.units, unit)}"


def _document(chart: "Chart") -> dict[str, Any]:
    of, span = chart.of, chart.span
    return {
        "of": f"{of.kind}s",
        "measure": of.measure,
        "percentile": of.rank if of.unit == "seconds" and of.measure != "oldest" else None,
        "type": of.type,
        "lane": of.lane,
        "tenant": of.tenant,
        "exactness": chart.exactness,
        "title": chart.title,
        "unit": of.unit,
        "since": span.since,
        "until": span.until,
        "resolution": span.resolution,
        "step": span.step,
        "points": [
            {"at": at, "value": value} for at, value in zip(span.begins, chart.points, strict=True)
        ],
    }


def _lines(chart: "Chart") -> Iterator[str]:
    yield _title(chart)
    if not chart.known:
        yield f"no data since {show(chart.span.since)}"
        return
    label = value_label(chart.of)
    yield from plots.plot(
        chart.points,
        chart.span.begins,
        width=_width(),
        height=_HEIGHT_LINES,
        label=label,
        time=time_of_day(chart.span),
    )
    whole = f", in all {sum(chart.known):,.0f}" if chart.of.adds_up else ""
    most = max(chart.known)
    yield f"≈ most {f'{most:,.0f}' if chart.of.unit == 'rows' else label(most)}{whole}"
    yield local_times(chart.span)
    if blank := blank_steps(chart):
        yield blank
    if chart.exactness == "at_least":
        yield columns.WITHOUT_A_PLACE


def blank_steps(chart: "Chart") -> str:
    """Say in words how many steps have no value, for readers who do not see gaps."""
    steps, known = len(chart.points), len(chart.known)
    if known == steps:
        return ""
    why = "no sample was taken" if chart.of.sampled else "there was nothing to measure"
    return f"blank in {steps - known:,} of {plural(steps, 'step')}: {why}"


def value_label(of: "Drawn") -> Callable[[float], str]:
    return short_number if of.unit == "rows" else span_of_time


def time_of_day(span: "Span") -> Callable[[datetime], str]:
    """Return the function that formats times below a chart: local times, but days of UTC."""
    if span.resolution == "days":
        return lambda at: at.astimezone(UTC).strftime("%Y-%m-%d")
    return lambda at: at.astimezone().strftime("%m-%d %H:%M")


def local_times(span: "Span") -> str:
    return f"from {show(span.since)} to {show(span.until)}, by {_by(span)}"


def _by(span: "Span") -> str:
    of_utc = " of UTC" if span.resolution == "days" else ""
    unit = span.resolution.removesuffix("s")
    return f"the {unit}{of_utc}" if span.units == 1 else f"{plural(span.units, unit)}{of_utc}"
