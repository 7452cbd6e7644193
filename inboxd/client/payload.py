"""Encoding of a payload as JSON text that jsonb can hold, with the standard library.

Promises: a value that cannot be stored unchanged (NUL, NaN, an infinity, half a surrogate pair, a
cycle, an object of an unknown class) is a PayloadError with the field's path and never its value.
Forms: dataclasses and pydantic models become objects; datetime, date and time ISO 8601; UUID and
Decimal text, so that no digit is lost; Enum its value; sets and tuples lists.
Known limit: numbers that the consumer's types cannot hold are refused by the consumer.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from operator import attrgetter, methodcaller
from typing import Any
from uuid import UUID

from inboxd.errors import PayloadError
from inboxd.model import storable

# Each of these texts may be harmless, so look at the values. Models write NaN as null.
_SUSPECTS = ("\\u0000", "null", "NaN", "Infinity")


def encode(payload: object) -> str:
    """JSON text of a payload; None becomes an empty object. Raises PayloadError."""
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
        try:
            found = storable.refusal(payload, _plain)
        except RecursionError:
            found = PayloadError("it is nested too deeply.")
        if found is None:
            return text
        refusal = found
    # Outside the except block: the encoder's error may quote the payload, so it must not be
    # chained.
    raise refusal


def _plain(value: Any) -> object:
    """The JSON form of an object that JSON does not know; raises TypeError if it has none."""
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
    date: methodcaller("isoformat"),  # also datetimes: they are dates
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
        found = storable.refusal(payload, _plain)
    except RecursionError:
        return PayloadError("it contains itself, so its JSON would have no end.")
    return found or PayloadError(f"{type(payload).__name__} cannot be written as JSON.")
