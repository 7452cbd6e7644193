"""What a column can hold: the database's own limits, known before it is asked.

Owns one check a kind of column; each returns what is wrong with a value that is not None, or None;
`refuse` makes an error of that.
Promises: what passes here passes the table's constraints, so a bad value costs a clear error and
not the caller's transaction. No answer holds the value. Known limits: the rules live here and in
the migrations; tests write each limit to the database. A number such as 1e300 in headers counts
there with all its digits.
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
# What drivers can read back: the tables' own constraint.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime(9999, 1, 1, tzinfo=UTC)


def text(value: object) -> str | None:
    """Text that PostgreSQL can hold."""
    if not isinstance(value, str):
        return f"must be a str, not {type(value).__name__}"
    if "\0" in value:
        return "has a NUL character, which PostgreSQL cannot store"
    return None if value.isascii() else _encodable(value)


def _encodable(value: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is no Unicode text"
    return None


def short(value: object) -> str | None:
    """A text that travels with its row: 255 bytes at most."""
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
    """A name that somebody declares and others type: printable, without spaces."""
    return printable(value) or (None if " " not in str(value) else "must be without spaces")


def refuse(what: str, problem: str | None) -> None:
    """Raise UsageError for what a check found."""
    if problem is not None:
        raise UsageError(f"{what} {problem}.")


def headers(encoded: str) -> str | None:
    """The JSON text of headers: an object of 16 KiB at most, as PostgreSQL writes it."""
    if not encoded.startswith("{"):
        return "must be a mapping: name each value"
    if len(encoded) <= _HEADERS_BYTES // 8:  # four bytes a character, and a space beside each
        return None
    size = len(json.dumps(json.loads(encoded), ensure_ascii=False).encode())
    if size <= _HEADERS_BYTES:
        return None
    return (
        f"have {size} bytes as JSON; at most {_HEADERS_BYTES} fit: "
        "put what is larger into the payload"
    )


def key(value: object) -> str | None:
    """An ordering key, a unique key or a dedup key: text of 1 to 255 bytes."""
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
    """How the events of a topic are processed."""
    known = value in get_args(Mode)
    return None if known else "must be 'single', 'sequential' or 'batch'"


def on_conflict(value: object) -> str | None:
    """What becomes of a command whose unique key is taken."""
    known = value in get_args(OnConflict)
    return None if known else "must be 'keep', 'replace' or 'reject'"


def uuid(value: object) -> str | None:
    """A UUID object: its text would reach some drivers as text and others not at all."""
    if isinstance(value, UUID):
        return None
    return f"must be a uuid.UUID, not {type(value).__name__}: write UUID(...) around it"


def small(value: object) -> str | None:
    """A whole number that fits into a smallint."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be an int, not {type(value).__name__}"
    return None if value in _SMALLINTS else "must lie between -32768 and 32767"


def count(value: object) -> str | None:
    """A smallint from 1: a version, a number of attempts."""
    if problem := small(value):
        return problem
    return None if value in _COUNTS else "must be 1 or more"


def time(value: object) -> str | None:
    """A time that names its zone, between 1970 and 9999."""
    if not isinstance(value, datetime):
        return f"must be a datetime, not {type(value).__name__}"
    if value.utcoffset() is None:
        return "has no time zone: datetime(..., tzinfo=UTC) says which moment is meant"
    return None if _FIRST <= value < _END else "must lie between 1970 and 9999"
