"""The search for values in a payload that JSON in PostgreSQL cannot store.

It runs after an encoder refused a payload, or if a text looks suspicious. A refusal names the path
and the problem, never the value. Known limit: a payload in itself raises RecursionError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from inboxd.errors import PayloadError

Path = tuple[str, ...]
# A path with a problem, or else with the value at it.
_Entry = tuple[Path, str | None, object]

# No JSON reader accepts more levels.
_MOST_LEVELS = 2_000
# A longer path is shortened to this many steps at its beginning and at its end.
_STEPS_NAMED = 6


def refusal(value: object, plain: Callable[[Any], object]) -> PayloadError | None:
    """None: all can be stored. plain: the JSON form of another class; raises TypeError."""
    # An explicit stack: JSON may have more levels than Python has calls.
    levels: list[Iterator[_Entry]] = [iter([((), None, value)])]
    while levels:
        path, problem, item = next(levels[-1], _END)
        if path is None:
            levels.pop()
        elif problem := problem or _scalar_problem(item):
            return PayloadError(f"{problem} cannot be stored.", _place(path) or None)
        elif (inside := _inside(item, plain, path)) is not None:
            levels.append(inside)
            if len(levels) > _MOST_LEVELS:
                raise RecursionError(f"more than {_MOST_LEVELS} levels")
    return None


_END: tuple[None, None, None] = (None, None, None)


def _place(path: Path) -> str:
    return ".".join(
        path
        if len(path) <= 2 * _STEPS_NAMED
        else (*path[:_STEPS_NAMED], "…", *path[-_STEPS_NAMED:])
    )


def _inside(value: object, plain: Callable[[Any], object], path: Path) -> Iterator[_Entry] | None:
    """The entries of a container, in order; None: the value is not a container."""
    match value:
        case None | bool() | int() | float() | Decimal() | str():
            return None
        case Mapping():
            return _entries(value, path)
        case list() | tuple():
            return (((*path, str(index)), None, item) for index, item in enumerate(value))
    try:
        return iter([(path, None, plain(value))])
    except TypeError:
        return iter([(path, f"an object of class {type(value).__name__}", None)])


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return "a number that is NaN or infinite"
    return None


def _entries(value: Mapping[Any, object], path: Path) -> Iterator[_Entry]:
    for key, item in value.items():
        if not isinstance(key, str | int | float | None):
            yield path, f"a key of class {type(key).__name__}", None
            continue
        step = str(key)
        if problem := _text_problem(step):
            yield (*path, ascii(step)), problem, None
        yield (*path, step), None, item


def _text_problem(value: str) -> str | None:
    if "\0" in value:
        return "text with a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return None
