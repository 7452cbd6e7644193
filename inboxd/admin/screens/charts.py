"""Charts as SVG, drawn on the server, so that they work without a script and in print.

Promises: a chart has a title for screen readers, and its page the numbers; nothing is styled
inline, which the headers forbid: `screens.css` has the colours (`hue-1` to `hue-8`, `good`, `bad`,
`busy`, `wait`, `idle`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import cos, floor, log10, pi, sin
from typing import Final

from markupsafe import Markup

Number = float | None
_Run = list[tuple[float, float]]

_WIDTH: Final = 600
_HEIGHT: Final = 150
_SPARK: Final = (96, 24)
_RADIUS: Final = 40
# A smaller share of a circle would not be visible.
_LEAST_SHARE: Final = 0.004


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart. look: its colour, and `dashed`. values: None if unknown.

    rows: the filter of the rows that it counts; None: it has no list. of: its part in each list.
    """

    title: str
    look: str
    values: Sequence[Number]
    filled: bool = False
    rows: Mapping[str, str | None] | None = None
    of: Mapping[str, Sequence[Number]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slice:
    title: str
    look: str
    value: float
    href: str | None = None


def ceiling(largest: float) -> float:
    """The scale of a chart ends at this round number."""
    if largest <= 0:
        return 1
    size = 10.0 ** floor(log10(largest))
    return next(step * size for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * size >= largest)


@dataclass(frozen=True, slots=True)
class DrawnMarker:
    """A marker in a plot. place: from 0 to 1. look: `act`, `breaker` or `release`."""

    place: float
    look: str
    text: str


def plot(
    title: str,
    curves: Sequence[Curve],
    points: Sequence[str],
    links: Sequence[str | None] = (),
    marks: Sequence[DrawnMarker] = (),
) -> Markup:
    """points: the tooltip of each step. links: the address of each step's rows; None: none.

    Links are for the pointer: keyboards and screen readers use those of the table of numbers.
    """
    top = top_of(curves)
    drawn = Markup().join(
        [Markup('<line class="grid" x1="0" x2="{w}" y1="{y}" y2="{y}"/>').format(w=_WIDTH, y=y)
         for y in (0, _HEIGHT / 2, _HEIGHT)]
        + [_curve(curve, top) for curve in curves]
        + [_point(text, at, len(points)) for at, text in enumerate(points) if not links]
    )  # fmt: skip
    told = Markup().join(
        _linked(link, _point(text, at, len(points)))
        for at, (text, link) in enumerate(zip(points, links, strict=False))
    )
    told += Markup().join(map(_mark, marks))
    box = Markup('viewBox="0 0 {} {}" preserveAspectRatio="none"').format(_WIDTH, _HEIGHT)
    return Markup(
        '<div class="drawn"><svg class="chart plot" {box} role="img" aria-label="{title}">{drawn}'
        "</svg>{over}</div>"
    ).format(
        box=box,
        title=title,
        drawn=drawn,
        over=Markup('<svg class="chart plot over" {} aria-hidden="true">{}</svg>').format(box, told)
        if told
        else "",
    )


def ended(curves: Sequence[Curve]) -> list[Curve]:
    """The last step is not over, and would look like a fall."""
    return [replace(curve, values=curve.values[:-1]) for curve in curves]


def top_of(curves: Sequence[Curve]) -> float:
    known = (value for curve in curves for value in curve.values if value is not None)
    return ceiling(max(known, default=0))


def _curve(curve: Curve, top: float) -> Markup:
    known = _runs(curve.values, _WIDTH, lambda value: _HEIGHT * (1 - value / top))
    drawn = Markup('<path class="line {}" d="{}"/>').format(curve.look, _line(known))
    if not curve.filled:
        return drawn
    under = " ".join(
        f"M{run[0][0]:.1f},{_HEIGHT} L{_path(run)} L{run[-1][0]:.1f},{_HEIGHT}Z" for run in known
    )
    return Markup('<path class="area {}" d="{}"/>').format(curve.look, under) + drawn


def _runs(values: Sequence[Number], width: float, y: Callable[[float], float]) -> list[_Run]:
    """The points between unknown values, where a line has gaps."""
    step = width / max(len(values) - 1, 1)
    runs: list[_Run] = [[]]
    for place, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((place * step, y(value)))
    return [run for run in runs if run]


def _line(runs: Iterable[_Run]) -> str:
    return " ".join(f"M{_path(run)}" for run in runs)


def _path(run: Sequence[tuple[float, float]]) -> str:
    """A single point becomes a short dash, so that it is visible."""
    points = run if len(run) > 1 else [run[0], (run[0][0] + 1, run[0][1])]
    return " L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _point(text: str, at: int, points: int) -> Markup:
    step = _WIDTH / max(points - 1, 1)
    left = max(0.0, (at - 0.5) * step)
    return Markup(
        '<rect class="point" x="{:.1f}" width="{:.1f}" height="{}"><title>{}</title></rect>'
    ).format(left, min((at + 0.5) * step, _WIDTH) - left, _HEIGHT, text)


def _mark(mark: DrawnMarker) -> Markup:
    """The flag at its top is easier to hit with the pointer."""
    at = mark.place * _WIDTH
    return Markup(
        '<g class="marker {}"><title>{}</title><line x1="{x:.1f}" x2="{x:.1f}" y2="{}"/>'
        '<path d="M{:.1f},0H{:.1f}L{x:.1f},12Z"/></g>'
    ).format(mark.look, mark.text, _HEIGHT, at - 5, at + 5, x=at)


def spark(title: str, values: Sequence[Number], look: str = "busy") -> Markup:
    width, height = _SPARK
    known = [value for value in values if value is not None]
    if not known:
        return Markup()
    top = max(*known, 1)
    runs = _runs(values, width, lambda value: 1 + (height - 2) * (1 - value / top))
    return Markup(
        '<svg class="chart spark" viewBox="0 0 {w} {h}" role="img" aria-label="{title}">'
        '<title>{title}</title><path class="line {look}" d="{line}"/></svg>'
    ).format(w=width, h=height, title=title, look=look, line=_line(runs))


def _unchanged(path: str) -> str:
    return path


def donut(title: str, slices: Sequence[Slice], url: Callable[[str], str] = _unchanged) -> Markup:
    """Parts that are too small to see are left out. Links are for the pointer alone."""
    whole = sum(each.value for each in slices)
    drawn, begin = Markup(), 0.0
    for each in slices:
        share = each.value / whole if whole else 0.0
        if share >= _LEAST_SHARE:
            drawn += _leading(each, _arc(each, begin, share), url)
        begin += share
    return Markup('<svg class="chart donut" viewBox="-50 -50 100 100" {}>{}</svg>').format(
        _named(title, slices), drawn
    )


def _leading(each: Slice, drawn: Markup, url: Callable[[str], str]) -> Markup:
    return _linked(None if each.href is None else url(each.href), drawn)


def _linked(link: str | None, drawn: Markup) -> Markup:
    if link is None:
        return drawn
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(link, drawn)


def _named(title: str, slices: Sequence[Slice]) -> Markup:
    """A title; with links, screen readers read the legend instead."""
    if any(each.href is not None for each in slices):
        return Markup('aria-hidden="true"')
    return Markup('role="img" aria-label="{}"').format(title)


def _arc(each: Slice, begin: float, share: float) -> Markup:
    """Never quite the whole circle: an arc with equal ends is not drawn."""
    end = begin + min(share, 0.9999)
    (x0, y0), (x1, y1) = _on_circle(begin), _on_circle(end)
    return Markup(
        '<path class="slice {}" d="M{:.2f},{:.2f} A{r},{r} 0 {} 1 {:.2f},{:.2f}">'
        "<title>{}</title></path>"
    ).format(
        each.look, x0, y0, int(share > 0.5), x1, y1, f"{each.title}: {each.value:,.0f}", r=_RADIUS  # noqa: PLR2004
    )  # fmt: skip


def _on_circle(share: float) -> tuple[float, float]:
    angle = 2 * pi * share - pi / 2
    return _RADIUS * cos(angle), _RADIUS * sin(angle)


def bar(
    title: str,
    parts: Sequence[Slice],
    whole: float | None = None,
    url: Callable[[str], str] = _unchanged,
) -> Markup:
    most = whole or sum(each.value for each in parts)
    drawn, left = Markup(), 0.0
    for each in parts:
        width = 100 * each.value / most if most else 0.0
        rect = Markup(
            '<rect class="bar {}" x="{:.2f}" width="{:.2f}" height="8"><title>{}</title></rect>'
        ).format(each.look, left, width, f"{each.title}: {each.value:,.0f}")
        drawn += _leading(each, rect, url)
        left += width
    return Markup(
        '<svg class="chart share" viewBox="0 0 100 8" preserveAspectRatio="none" {}>{}</svg>'
    ).format(_named(title, parts), drawn)
