"""What a payload holds that JSON in PostgreSQL cannot, and where.

Owns the search that follows when an encoder was refused, or its text looks suspicious. Promises: a
refusal names the field's path and the kind of the problem, never the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from inboxd.errors import PayloadError

Path = tuple[str, ...]


def refusal(value: object, plain: Callable[[Any], object]) -> PayloadError | None:
    """The first of what cannot be stored; None: all can be.

    plain: the form in JSON of an object that is none of its kinds; raises TypeError if it has none.
    """
    for path, problem in _problems(value, plain, ()):
        return PayloadError(f"{problem} cannot be stored.", ".".join(path) or None)
    return None


def _problems(
    value: object, plain: Callable[[Any], object], path: Path
) -> Iterator[tuple[Path, str]]:
    match value:
        case None | bool() | int() | float() | Decimal() | str():
            if problem := _scalar_problem(value):
                yield path, problem
        case Mapping():
            for key, item in value.items():
                yield from _entry_problems(key, item, plain, path)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _problems(item, plain, (*path, str(index)))
        case _:
            try:
                form = plain(value)
            except TypeError:
                yield path, f"an object of class {type(value).__name__}"
            else:
                yield from _problems(form, plain, path)


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return "a number that is NaN or infinite"
    return None


def _entry_problems(
    key: Any, item: object, plain: Callable[[Any], object], path: Path
) -> Iterator[tuple[Path, str]]:
    if not isinstance(key, str | int | float | None):
        yield path, f"a key of class {type(key).__name__}"
        return
    step = str(key)
    if problem := _text_problem(step):
        yield (*path, ascii(step)), problem
    yield from _problems(item, plain, (*path, step))


def _text_problem(value: str) -> str | None:
    if "\0" in value:
        return "text with a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return None
