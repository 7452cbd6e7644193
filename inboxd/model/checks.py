"""The limits of each kind of column, checked before the database is asked.

A check returns the problem of a value, or None; the text never holds the value. A value that passes
here passes the table's constraints. Known limits: the rules exist here and in the migrations; a
number such as 1e300 in headers counts in the database with all its digits.
"""

import json
from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from inboxd.errors import UsageError

Mode: TypeAlias = Literal["single", "sequential", "batch"]
OnConflict: TypeAlias = Literal["keep", "replace", "reject"]

_NAME_BYTES = 255
_HEADERS_BYTES = 16 * 1024
_REMEDY = "shorten it, or put it into the payload"
_SMALLINTS = range(-(2**15), 2**15)
_COUNTS = range(1, 2**15)
# The range that all drivers can read back; the tables have the same constraint.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)


def text(value: object) -> str | None:
    if not isinstance(value, str):
        return f"must be a str, not {type(value).__name__}"
    if "\0" in value:
        return "has a NUL character, which PostgreSQL cannot store"
    return None if value.isascii() else _encodable(value)


def _encodable(value: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is not Unicode text"
    return None


def short(value: object) -> str | None:
    """A short text of a row: at most 255 bytes."""
    if problem := text(value):
        return problem
    size = len(str(value).encode())
    if size <= _NAME_BYTES:
        return None
    return f"has {size} bytes; at most {_NAME_BYTES} fit: {_REMEDY}"


def name(value: object) -> str | None:
    """A type, a topic or a queue: text of 1 to 255 bytes."""
    return short(value) or (None if value else f"has 0 bytes; 1 to {_NAME_BYTES} fit")


def printable(value: object) -> str | None:
    """A name that a person can read: 1 to 255 printable bytes."""
    return name(value) or (None if str(value).isprintable() else "must be printable")


def plain(value: object) -> str | None:
    """A name that people type: printable, without spaces."""
    return printable(value) or (None if " " not in str(value) else "must be without spaces")


def refuse(what: str, problem: str | None) -> None:
    if problem is not None:
        raise UsageError(f"{what} {problem}.")


def headers(encoded: str) -> str | None:
    """The JSON text of headers: an object of at most 16 KiB, as PostgreSQL writes it."""
    if not encoded.startswith("{"):
        return "must be a mapping: name each value"
    # at most four bytes per character, and a space beside each
    if len(encoded) <= _HEADERS_BYTES // 8:
        return None
    size = len(json.dumps(json.loads(encoded), ensure_ascii=False).encode())
    if size <= _HEADERS_BYTES:
        return None
    return (
        f"have {size} bytes as JSON; at most {_HEADERS_BYTES} fit: put larger values into the "
        "payload"
    )


def key(value: object) -> str | None:
    return name(value)


def message_id(value: object) -> str | None:
    """The id of a webhook: signed as ID.TIME.BODY, and sent as a header."""
    if problem := name(value):
        return problem
    plain_ascii = str(value).isascii() and str(value).isprintable()
    if plain_ascii and not {" ", "."}.intersection(str(value)):
        return None
    return "must be printable ASCII without spaces and dots"


def mode(value: object) -> str | None:
    known = value in get_args(Mode)
    return None if known else "must be 'single', 'sequential' or 'batch'"


def on_conflict(value: object) -> str | None:
    known = value in get_args(OnConflict)
    return None if known else "must be 'keep', 'replace' or 'reject'"


def uuid(value: object) -> str | None:
    """A UUID object: drivers treat the text of a UUID differently."""
    if isinstance(value, UUID):
        return None
    return f"must be a uuid.UUID, not {type(value).__name__}: give UUID(...)"


def small(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be an int, not {type(value).__name__}"
    return None if value in _SMALLINTS else "must lie between -32768 and 32767"


def count(value: object) -> str | None:
    if problem := small(value):
        return problem
    return None if value in _COUNTS else "must be 1 or more"


def time(value: object) -> str | None:
    if not isinstance(value, datetime):
        return f"must be a datetime, not {type(value).__name__}"
    if value.utcoffset() is None:
        return "has no time zone: give datetime(..., tzinfo=UTC)"
    return None if _FIRST <= value < _END else "must lie between 1970 and 9999"
