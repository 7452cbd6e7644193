"""Column arrays: parameters of statements for many rows. A wrong column name fails at a call."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any

from inboxd.model.lane import Lane


def columns(rows: Sequence[object], *names: str) -> Iterator[list[Any]]:
    return (list(map(attrgetter(name), rows)) for name in names)


def filled(values: list[Any], default: object = None) -> list[Any] | None:
    """None if every value is `default`: cheaper, and `unnest` fills a missing column with NULL."""
    return None if values.count(default) == len(values) else values


def sparse(rows: Sequence[object], *names: str) -> Iterator[list[Any] | None]:
    return map(filled, columns(rows, *names))


def cursors(lanes: Sequence[Lane], *parts: int) -> list[list[Any]]:
    """The given parts of the lanes' keys, and the lanes' cursors: time and id."""
    keys = [[lane.key[part] for lane in lanes] for part in parts]
    return [*keys, [lane.after_at for lane in lanes], [lane.after_id for lane in lanes]]
