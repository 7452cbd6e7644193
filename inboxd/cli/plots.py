"""Plots of characters: sparklines, bars, and a chart with its axes.

No colour and no control character, so a plot looks the same in a pipe and on paper; every value
above 0 is visible; an unknown value is blank, unlike 0. If the encoding has no block characters,
`output.encodable` replaces them by ASCII, in the same eight heights.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from math import ceil, floor, log10

Values = Sequence[float | None]

# The first character means 0.
HEIGHTS = "▁▂▃▄▅▆▇█"
FULL, EMPTY = "█", " "
_LEAST_WIDTH = 30
_LEAST_TOP = 1e-9  # least top value of a scale
_TICK_CHARACTERS = 14  # least distance between two times on the axis


def sparkline(values: Values, width: int, *, adds_up: bool = True) -> str:
    """adds_up: a shared character shows the mean of its values, else the largest."""
    squeezed = _squeezed(values, width, adds_up=adds_up)
    most = max((each for each in squeezed if each is not None), default=0)
    return "".join(EMPTY if each is None else _height(each, most) for each in squeezed)


def bar(value: float, most: float, width: int) -> str:
    return FULL * (max(1, round(width * value / most)) if value > 0 < most else 0)


def plot(
    values: Values,
    begins: Sequence[datetime],
    *,
    width: int,
    height: int,
    label: Callable[[float], str],
    time: Callable[[datetime], str],
) -> Iterator[str]:
    """Yields `height` lines, with a scale from 0, and two lines of the axis of times."""
    most = max((each for each in values if each is not None), default=0) or 1
    top = _round_up(max(most, _LEAST_TOP))
    marks = {height - 1: label(top), 0: label(0)}
    if height > 4:  # noqa: PLR2004 - a scale of three marks needs room
        marks[(height - 1) // 2] = label(top * ((height - 1) // 2 + 1) / height)
    room = max(map(len, marks.values()))
    across = max(1, (max(width, _LEAST_WIDTH) - room - 2) // max(1, len(values)))
    columns = [each for each in values for _ in range(across)]
    for line in reversed(range(height)):
        cells = "".join(_cell(each, top, line, height) for each in columns)
        yield f"{marks.get(line, ''):>{room}} {'┤' if line in marks else '│'}{cells}".rstrip()
    ticks = _ticks(len(values), across, time, begins)
    axis = ["─"] * len(columns)
    names = [" "] * (len(columns) + _TICK_CHARACTERS)
    for column, text in ticks:
        axis[column] = "┬"
        names[column : column + len(text)] = text
    yield f"{'':{room}} └{''.join(axis)}"
    yield f"{'':{room}}  {''.join(names)}".rstrip()


def _ticks(
    steps: int, across: int, time: Callable[[datetime], str], begins: Sequence[datetime]
) -> list[tuple[int, str]]:
    every = ceil(_TICK_CHARACTERS / across)
    end = steps * across
    found = [(n * across, time(begins[n])) for n in range(0, steps, every)]
    return [each for each in found if each[0] == 0 or each[0] + len(each[1]) <= end]


def _cell(value: float | None, top: float, line: int, height: int) -> str:
    """Return the character of a column in a line; line 0 is the lowest."""
    if value is None:
        return EMPTY
    eighths = value / top * height * 8
    if value > 0:
        eighths = max(eighths, 2)  # visibly more than 0
    left = round(eighths) - line * 8
    if left >= 8:  # noqa: PLR2004 - eighths of a character
        return FULL
    if left >= 1:
        return HEIGHTS[left - 1]
    return HEIGHTS[0] if line == 0 else EMPTY


def _height(value: float, most: float) -> str:
    if value <= 0:
        return HEIGHTS[0]
    return HEIGHTS[max(1, ceil(value / most * 7))]


def _squeezed(values: Values, width: int, *, adds_up: bool) -> list[float | None]:
    if len(values) <= width:
        return list(values)
    edges = [len(values) * n // width for n in range(width + 1)]
    found: list[float | None] = []
    for begin, end in pairwise(edges):
        known = [each for each in values[begin:end] if each is not None]
        if not known:
            found.append(None)
        else:
            found.append(sum(known) / len(known) if adds_up else max(known))
    return found


def _round_up(value: float) -> float:
    size = 10 ** floor(log10(value))
    return float(
        next((n for n in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8) if value <= n * size), 10) * size
    )
