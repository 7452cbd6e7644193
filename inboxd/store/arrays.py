"""Column arrays: the parameters of statements that take many rows at once.

Promises that the columns come in the order in which they are named. Known limit: columns are named
by strings, so a wrong name fails only at the first call.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from inboxd.model.lane import Lane


def columns(rows: Sequence[object], *names: str) -> Iterator[list[Any]]:
    """One list per attribute name, each with the values of all rows in order."""
    return (list(map(attrgetter(name), rows)) for name in names)


def filled(values: list[Any], default: object = None) -> list[Any] | None:
    """The column, or None if every value is `default`: `unnest` fills a missing column with NULL.

    None is cheaper: the driver inspects each element of an array several times.
    """
    return None if values.count(default) == len(values) else values


def sparse(rows: Sequence[object], *names: str) -> Iterator[list[Any] | None]:
    """`columns` for columns that are mostly NULL: an all-NULL column becomes None."""
    return map(filled, columns(rows, *names))


def cursors(lanes: Sequence[Lane], *parts: int) -> list[list[Any]]:
    """The given parts of the lanes' keys, and the lanes' cursors: time and id."""
    keys = [[lane.key[part] for lane in lanes] for part in parts]
    return [*keys, [lane.after_at for lane in lanes], [lane.after_id for lane in lanes]]
