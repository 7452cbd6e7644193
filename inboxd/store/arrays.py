"""Arrays, as statements take them that have a parameter for each column of many rows.

Promises that the columns come in the order in which they are named. Known limit: a column is named
by a text, so a wrong one is found at the first call.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from inboxd.model.lane import Lane


def columns(rows: Sequence[object], *names: str) -> Iterator[list[Any]]:
    """The values of each of these attributes, row by row."""
    return (list(map(attrgetter(name), rows)) for name in names)


def filled(values: list[Any], default: object = None) -> list[Any] | None:
    """A column; None where all of it is as the statement has it without, for `unnest` fills it up.

    The driver looks at each element of an array several times, whatever it is.
    """
    return None if values.count(default) == len(values) else values


def sparse(rows: Sequence[object], *names: str) -> Iterator[list[Any] | None]:
    """As `columns`, where few rows have a value."""
    return map(filled, columns(rows, *names))


def cursors(lanes: Sequence[Lane], *parts: int) -> list[list[Any]]:
    """These parts of the lanes' keys, and up to where each was claimed: time and id."""
    keys = [[lane.key[part] for lane in lanes] for part in parts]
    return [*keys, [lane.after_at for lane in lanes], [lane.after_id for lane in lanes]]
