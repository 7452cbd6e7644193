"""A story as Markdown: a table of its times, and its diagram.

Texts of rows stay plain text in every Markdown viewer; rows left out are counted.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from inboxd.model.story import RECEIPT, Key
from inboxd.model.story_drawing import diagram, rest_of
from inboxd.model.story_times import WAITED, PlacedRow, Waterfall
from inboxd.model.wording import one_line, plural, span

_LONGEST: Final = 200
_HEAD: Final = ("Row", "Type", "Status", "After", "Waited", "Worked", "Attempts", "Notes")
_ALIGNED: Final = ("---", "---", "---", "---:", "---:", "---:", "---:", "---")
_TICKS: Final = re.compile(r"`+")


def markdown(asked: Key, fall: Waterfall, *, earlier: bool = False) -> Iterator[str]:
    top = fall.rows[0].node
    name = next((row.node.member.name for row in fall.rows if row.node.member.key == asked), "")
    yield f"# Story of {name or top.member.name}"
    yield ""
    yield (
        f"{plural(len(fall.rows), 'row')}, from {_instant(fall.since)} on, "
        f"{span(fall.seconds)}{' so far' if fall.goes_on else ''}. "
        f"In {span(fall.worked)} of it rows were worked on."
    )
    if earlier:
        yield ""
        yield f"The story goes on above {top.member.name}."
    yield ""
    yield _line(_HEAD)
    yield _line(_ALIGNED)
    for row in fall.rows:
        yield _line(_cells(row, fall))
    yield ""
    yield "*Waited* is the time from the creation to the last attempt, earlier attempts included."
    yield ""
    yield "```mermaid"
    yield from diagram(top)
    yield "```"


def _cells(row: PlacedRow, fall: Waterfall) -> Iterator[str]:
    member, times = row.node.member, row.times
    yield f"{'· ' * row.depth}{member.name}"
    yield code(member.type)
    yield member.status
    yield f"+{span((times.began - fall.since).total_seconds())}"
    yield _spent(times.spent(WAITED, fall.now), times.spent(WAITED))
    yield _spent(times.spent(("worked",), fall.now), times.spent(("worked",)))
    yield str(member.attempts) if member.kind not in ("batch", RECEIPT) else ""
    notes = [*row.node.notes]
    if member.error and member.status != "succeeded":
        notes += member.error.splitlines()[:1]
    if rest := rest_of(row.node):
        notes.append(rest)
    yield ", ".join(map(code, filter(None, notes)))


def _spent(so_far: float | None, whole: float | None) -> str:
    if so_far is None:
        return ""
    return span(so_far) if whole is not None else f"{span(so_far)} so far"


def _line(cells: Iterator[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def code(text: str) -> str:
    """In code no link or HTML works, but a bar ends a cell unless one backslash is before it."""
    text = one_line(text, _LONGEST)
    text = re.sub(r"\\(?=\||$)", r"\\ ", text).replace("|", "\\|")
    if not text.strip():
        return ""
    fence = "`" * (max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    room = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{room}{text}{room}{fence}"
