"""Turns a body into the payload of an event: JSON that PostgreSQL can store.

JSON is kept digit by digit; a body that jsonb cannot hold is found before the database is asked.
Known limits: a byte order mark is dropped; JSON with more than 1,024 levels, or with an integer
beyond 1e308, is not accepted as JSON.
"""

import base64
import json
import re
from decimal import Decimal
from urllib.parse import parse_qsl

import orjson

from inboxd.model import storable

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUL = b"\\u0000"
# For a quick check: a number that may have more decimals than PostgreSQL's numeric can hold.
_MOST_DIGITS = 16_383
_LONG_NUMBER = re.compile(rb"\.[0-9]{8000}|[0-9][eE]-0*(?:[4-9][0-9]{2}|[1-9][0-9]{3})")
# Numbers smaller than any float: a few bytes each, which PostgreSQL writes as this number of zeros.
# The database refuses a document with many of them (migrations/functions/put_body.sql).
_SMALLEST, _MOST_ZEROS = -400, 2_000
_MOST_FIELDS = 10_000


class BrokenBody(Exception):
    """No event can be made of a body: the reason, which quotes none of it."""


def from_json(body: bytes) -> tuple[str, object]:
    """The text of the payload, and the decoded document. Raises BrokenBody."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BrokenBody(f"the body is not JSON: {error}") from None
    if _NUL in body and (problem := storable.refusal(document, _no_other)):
        raise BrokenBody(f"the body is JSON that PostgreSQL cannot store: {problem}")
    if _LONG_NUMBER.search(body):
        _check_numbers(body)
    return body.decode(), document


def as_far_as_read(body: bytes) -> tuple[object, str]:
    """A JSON document and its text, without checks for storage; None and "" if it is not JSON."""
    try:
        return orjson.loads(body.removeprefix(_BYTE_ORDER_MARK)), body.decode("utf-8-sig")
    except ValueError:
        return None, ""


def from_form(body: bytes) -> tuple[str, object]:
    """A repeated name becomes an array of strings. Raises BrokenBody."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise BrokenBody("the body is not a form of names and values in UTF-8") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    found: dict[str, str | list[str]] = {
        name: each[0] if len(each) == 1 else each for name, each in values.items()
    }
    text = orjson.dumps(found)
    if _NUL in text and (problem := storable.refusal(found, _no_other)):
        raise BrokenBody(f"the body is a form that PostgreSQL cannot store: {problem}")
    return text.decode(), found


def from_text(body: bytes) -> tuple[str, object]:
    """A JSON string. Raises BrokenBody."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BrokenBody("the body is not text in UTF-8") from None
    if "\0" in text:
        raise BrokenBody("the body is text with a NUL character, which PostgreSQL cannot store")
    return orjson.dumps(text).decode(), text


def as_it_is(body: bytes) -> str:
    """JSON text of any body: a string, or an object with the body in base64."""
    try:
        return from_text(body)[0]
    except BrokenBody:
        return orjson.dumps({"base64": base64.b64encode(body).decode()}).decode()


def exact_text(text: str | bytes) -> object:
    """A document whose numbers are kept as texts. Raises BrokenBody."""
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        raise BrokenBody("the body is nested too deeply for a number of it to be a key") from None


def _check_numbers(body: bytes) -> None:
    zeros = 0

    def check(number: str) -> str:
        nonlocal zeros
        value = Decimal(number)
        if value.adjusted() < _SMALLEST:
            zeros -= value.adjusted()
        if zeros > _MOST_ZEROS:
            raise BrokenBody("the body is JSON with many numbers that no float holds")
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and exponent < -_MOST_DIGITS:
            raise BrokenBody(
                "the body is JSON that PostgreSQL cannot store: a number has more than "
                f"{_MOST_DIGITS} digits after the decimal point"
            )
        return number

    try:
        json.loads(body, parse_int=str, parse_float=check)
    except RecursionError:
        raise BrokenBody("the body is JSON that is nested too deeply to be checked") from None


def _no_other(value: object) -> object:
    raise TypeError(type(value).__name__)
