"""Charts as SVG and PNG files, by matplotlib: its import takes a second, so it happens only here.

No display is needed; the same points make the same file; names are drawn as plain text.
"""

import warnings
from io import BytesIO
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from inboxd.cli.chart import blank_steps, local_times, time_of_day, value_label
from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.operations.charts import Chart

_SIZE_INCHES, _DOTS_PER_INCH = (10.0, 5.0), 100
_MOST_TICKS = 8
# Steps between two ticks: round numbers of minutes, hours, days.
_STEPS = (1, 2, 3, 5, 7, 10, 14, 20, 24, 30, 60, 90, 120, 180, 365, 500)
# Without date and program, equal charts are equal files.
_NO_METADATA = {".svg": {"Date": None, "Creator": None}, ".png": {"Software": None}}


def draw(chart: "Chart", title: str, file: Path) -> None:
    """Draw a chart into a file, .svg or .png. Raises UsageError if it cannot be written."""
    written = BytesIO()
    # UserWarning: a letter that the font lacks; the PNG shows a box.
    with (
        # SVG keeps text as text, and its ids are the same each time.
        mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "inboxd"}),
        warnings.catch_warnings(action="ignore", category=UserWarning),
    ):
        figure = _figure(chart, title)
        metadata = _NO_METADATA[file.suffix]
        figure.savefig(written, format=file.suffix[1:], dpi=_DOTS_PER_INCH, metadata=metadata)
    try:
        file.write_bytes(written.getvalue())
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from None


def _figure(chart: "Chart", title: str) -> Figure:
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    begins = chart.span.begins
    edges = [at.timestamp() for at in (*begins, chart.span.end)]
    values = [nan if each is None else each for each in chart.points]
    axes.stairs(values, edges, fill=True, alpha=0.35, color="C0")
    axes.stairs(values, edges, color="C0")
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0, top=None if any(chart.known) else 1)
    axes.set_title(title, parse_math=False)
    told = filter(None, (local_times(chart.span), blank_steps(chart)))
    axes.set_xlabel("\n".join(told), parse_math=False)
    axes.grid(axis="y", alpha=0.4)
    time, label = time_of_day(chart.span), value_label(chart.of)
    ticks = begins[:: next(n for n in _STEPS if len(begins) <= n * _MOST_TICKS)]
    axes.set_xticks([at.timestamp() for at in ticks], [time(at) for at in ticks])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))
    if not chart.known:
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center")
    return figure
