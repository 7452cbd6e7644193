"""From a payload to JSON text that jsonb can hold, by the standard library.

Owns the encoding. Promises: what cannot be stored as it is (NUL, NaN, an infinity, half a surrogate
pair, a cycle, an object of no known form) is a PayloadError with the field's path and never its
value. Forms: dataclasses and pydantic models become objects; datetime, date, time ISO 8601; UUID
and Decimal text, so that no digit is lost; Enum its value; sets and tuples lists.
Known limit: numbers beyond what the consumer's types hold are the consumer's to refuse.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from operator import attrgetter, methodcaller
from typing import Any
from uuid import UUID

from inboxd.errors import PayloadError

# Any of these in the text may be harmless: look closer, but only then. Models write NaN as null.
_SUSPECTS = ("\\u0000", "null", "NaN", "Infinity")


def encode(payload: object) -> str:
    """JSON text of a payload; None is an empty object. Raises PayloadError."""
    if payload is None:
        return "{}"
    to_json = getattr(payload, "model_dump_json", None)
    try:
        if to_json is not None:
            text: str = to_json()
            suspicious = any(suspect in text for suspect in _SUSPECTS)
        else:
            text = _encode(payload)
            suspicious = "\\u0000" in text
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        refusal = _refusal(payload, error)
    else:
        if not suspicious:
            return text
        found = next(_problems(payload, ()), None)
        if found is None:
            return text
        refusal = _refused(*found)
    # Outside the except block: the encoder's error may quote the payload and must not be chained.
    raise refusal


def _plain(value: Any) -> object:
    """What the encoder asks for when it meets an object that JSON does not know."""
    for class_, form in _FORMS.items():
        if isinstance(value, class_):
            return form(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump()
    raise TypeError(type(value).__name__)


def _exact(number: Decimal) -> str:
    if number.is_finite():
        return str(number)
    raise ValueError("NaN")


_FORMS: dict[type, Callable[[Any], object]] = {
    date: methodcaller("isoformat"),  # datetimes too: they are dates
    time: time.isoformat,
    UUID: str,
    Decimal: _exact,
    Enum: attrgetter("value"),
    set: list,
    frozenset: list,
    Mapping: dict,
}


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


def _refusal(payload: object, error: Exception) -> PayloadError:
    if isinstance(error, RecursionError):
        return PayloadError("it is nested too deeply to be written as JSON.")
    try:
        found = next(_problems(payload, ()), None)
    except RecursionError:
        return PayloadError("it refers to itself, so it has no end as JSON.")
    if found is not None:
        return _refused(*found)
    return PayloadError(f"{type(payload).__name__} cannot be written as JSON.")


def _refused(path: tuple[str, ...], problem: str) -> PayloadError:
    return PayloadError(f"{problem} cannot be stored.", ".".join(path) or None)


def _problems(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where the payload holds what JSON or jsonb cannot, and what that is."""
    match value:
        case None | bool() | int() | float() | Decimal() | str():
            if problem := _scalar_problem(value):
                yield path, problem
        case Mapping():
            for key, item in value.items():
                yield from _entry_problems(key, item, path)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _problems(item, (*path, str(index)))
        case _:
            try:
                plain = _plain(value)
            except TypeError:
                yield path, f"an object of class {type(value).__name__}"
            else:
                yield from _problems(plain, path)


def _scalar_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return "a number that is NaN or infinite"
    return None


def _entry_problems(
    key: Any, item: object, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(key, str | int | float | None):
        yield path, f"a key of class {type(key).__name__}"
        return
    step = str(key)
    if problem := _text_problem(step):
        yield (*path, ascii(step)), problem
    yield from _problems(item, (*path, step))


def _text_problem(value: str) -> str | None:
    if "\0" in value:
        return "text with a NUL character"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text with half of a surrogate pair"
    return None
