"""The bars of a waterfall as SVG: one for each row, all over the same time.

Promises: the page has the numbers as text, too; a stretch is always wide enough to be seen.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from markupsafe import Markup

from inboxd.model.story_times import How, PlacedRow, TimeStretch, Waterfall
from inboxd.model.wording import span

_WIDTH: Final = 1000
_HEIGHT: Final = 20
_LEAST_WIDTH: Final = 4
# Half the height of each kind, so that they differ even without their colours.
_HALF: Final[dict[How, float]] = {"early": 1.5, "due": 4, "worked": 8, "dead": 1.5, "batch": 6}
_LOOKS: Final[dict[How, str]] = {"early": "idle", "due": "wait", "dead": "bad", "batch": "hue-8"}
_WORDS: Final[dict[How, str]] = {
    "early": "Not due, or between attempts",
    "due": "Due, not started",
    "worked": "Being processed",
    "dead": "Dead letter",
    "batch": "Batch",
}


def bar(row: PlacedRow, fall: Waterfall, say: Callable[..., str]) -> Markup:
    drawn = Markup().join(
        Markup('<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{h}"/>').format(
            x=_WIDTH * quarter / 4, h=_HEIGHT
        )
        for quarter in range(5)
    )
    for stretch in row.times.stretches:
        drawn += _stretch(stretch, row, fall, say)
    if not row.times.stretches:
        drawn += _tick(row.times.began, "accent", say("Came in"), fall)
    for at in row.times.failed:
        drawn += _tick(at, "bad", say("An attempt failed"), fall)
    for at in row.times.replayed:
        drawn += _tick(at, "busy", say("Replayed"), fall)
    return Markup(
        '<svg class="chart bars" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg>"
    ).format(_WIDTH, _HEIGHT, drawn)


def _stretch(
    stretch: TimeStretch, row: PlacedRow, fall: Waterfall, say: Callable[..., str]
) -> Markup:
    begin, end = _place(stretch.since, fall), _place(stretch.until or fall.until, fall)
    if stretch.how == "dead" and stretch.until is None:
        end = _WIDTH  # A dead letter has no end, and does not extend the time that is drawn.
    if end - begin < _LEAST_WIDTH:
        begin = min(begin, _WIDTH - _LEAST_WIDTH)
        end = begin + _LEAST_WIDTH
    look = _LOOKS.get(stretch.how) or row.node.member.status
    told = f"{say(_WORDS[stretch.how])}: {span(stretch.seconds(fall.now))}"
    middle, half = _HEIGHT / 2, _HALF[stretch.how]
    if stretch.how == "batch":
        shape = Markup('<path class="bracket {}" d="M{:.1f},{y} V{top} H{:.1f} V{y}">').format(
            look, begin, end, y=middle + half, top=middle - half
        )
        drawn = shape + Markup("<title>{}</title></path>").format(told)
    else:
        drawn = Markup(
            '<rect class="bar {} {}" x="{:.1f}" width="{:.1f}" y="{}" height="{}">'
            "<title>{}</title></rect>"
        ).format(stretch.how, look, begin, end - begin, middle - half, 2 * half, told)
    if stretch.until is None:
        drawn += Markup('<path class="on {}" d="M{},{} l6,{} l-6,{}"/>').format(
            look, min(end, _WIDTH - 8), middle - 6, 6, 6
        )
    return drawn


def _tick(at: datetime, look: str, told: str, fall: Waterfall) -> Markup:
    return Markup('<path class="tick {}" d="M{:.1f},1 V{}"><title>{}</title></path>').format(
        look, min(_place(at, fall), _WIDTH - 1), _HEIGHT - 1, told
    )


def _place(at: datetime, fall: Waterfall) -> float:
    """An instant outside of the drawn time is at the edge."""
    share = (at - fall.since).total_seconds() / fall.seconds if fall.seconds else 0.0
    return _WIDTH * min(max(share, 0.0), 1.0)
