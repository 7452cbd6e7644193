"""What the query of an address asks for, read.

Promises that a value which is none of those that there are is refused in words.
"""

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import QueryParams

from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id

PAGE_SIZES: Final = (20, 50, 100)
_LIMIT: Final = f"limit is a number of rows, at most {PAGE_SIZES[-1]}"
_DIGITS: Final = 6
_LONGEST: Final = 2_000


def texts(query: QueryParams, *names: str) -> dict[str, str | None]:
    """What is given by these names; what is empty is none. Raises UsageError."""
    found = {name: query.get(name) or None for name in names}
    for name, text in found.items():
        if text is not None and (len(text) > _LONGEST or "\0" in text):
            raise UsageError(f"{name} is a text of at most {_LONGEST} characters, without NUL")
    return found


def given(query: QueryParams, name: str) -> list[str]:
    """All that is given by that name."""
    return [value for value in query.getlist(name) if value]


def row_number(query: QueryParams, name: str) -> int | None:
    """The number of a row. Raises UsageError."""
    text = query.get(name)
    if not text:
        return None
    number = read_row_id(text)
    if not isinstance(number, int):
        raise UsageError(f"{name} is the number of a row")
    return number


def page_size(query: QueryParams) -> int:
    """How many rows a page is to have: at most as many as the largest that is offered."""
    text = query.get("limit", "")
    if not text:
        return PAGE_SIZES[0]
    # Longer texts are too large, or hide a large number behind zeros.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise UsageError(_LIMIT)
    if not 0 < (limit := int(text)) <= PAGE_SIZES[-1]:
        raise UsageError(_LIMIT)
    return limit


def one_of(query: QueryParams, name: str, choices: Sequence[str]) -> str:
    """The one that is chosen, or else the first. Raises UsageError."""
    text = query.get(name) or choices[0]
    if text not in choices:
        raise UsageError(f"{name} is one of: {', '.join(choices)}")
    return text


def is_set(query: QueryParams, name: str) -> bool:
    """Whether `?name=1` is given."""
    return query.get(name, "0").lower() in ("1", "true")
