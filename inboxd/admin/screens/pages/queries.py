"""Reads values from the query of an address; raises UsageError, with the valid ones."""

import shlex
from collections.abc import Collection, Sequence
from typing import Final

from starlette.datastructures import QueryParams

from inboxd.admin.screens.formatting import in_utc
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id

PAGE_SIZES: Final = (20, 50, 100)
_LIMIT: Final = f"limit must be a number of rows from 1 to {PAGE_SIZES[-1]}"
_DIGITS: Final = 6
_LONGEST: Final = 2_000
_TIMES: Final = ("since", "until")
_OF_PAGES: Final = ("limit", "below")
_OPTIONS: Final = {"below": "after"}


def texts(query: QueryParams, *names: str) -> dict[str, str | None]:
    found = {name: query.get(name) or None for name in names}
    for name, text in found.items():
        if text is not None and (len(text) > _LONGEST or "\0" in text):
            raise UsageError(f"{name} must have at most {_LONGEST} characters, without NUL")
    return found


def given(query: QueryParams, name: str) -> list[str]:
    return [value for value in query.getlist(name) if value]


def row_number(query: QueryParams, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    number = read_row_id(text)
    if not isinstance(number, int):
        raise UsageError(f"{name} must be the number of a row")
    return number


def page_size(query: QueryParams) -> int:
    """It is at most the largest of `PAGE_SIZES`."""
    text = query.get("limit", "")
    if not text:
        return PAGE_SIZES[0]
    # A longer text is too large a number, or has leading zeros.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(_LIMIT)
    if not 0 < (limit := int(text)) <= PAGE_SIZES[-1]:
        raise UsageError(_LIMIT)
    return limit


def one_of(query: QueryParams, name: str, choices: Sequence[str]) -> str:
    """The first choice is the default."""
    text = query.get(name) or choices[0]
    if text not in choices:
        raise UsageError(f"{name} must be one of: {', '.join(choices)}")
    return text


def is_set(query: QueryParams, name: str) -> bool:
    return query.get(name, "0").lower() in ("1", "true")


def command_of(command: str, query: QueryParams, names: Collection[str]) -> str:
    """These names of the query are options of the command."""
    options = [
        f"--{_OPTIONS.get(name, name)} {shlex.quote(in_utc(value) if name in _TIMES else value)}"
        for name, value in query.multi_items()
        if value and (name in names or name in _OF_PAGES)
    ]
    return " ".join([command, *options])
