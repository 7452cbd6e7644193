"""JSON pointers (RFC 6901), compiled once; a missing value is distinct from null."""

import re
from collections.abc import Callable
from typing import Final

from inboxd.errors import UsageError

# The pointer finds no value.
MISSING: Final = object()

Follow = Callable[[object], object]

_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")
# Arrays have fewer elements; int() of a longer number is slow.
_INDEX_DIGITS = 18


def steps(pointer: str) -> tuple[str, ...]:
    """The names in a pointer, unescaped. Raises UsageError."""
    if pointer and not pointer.startswith("/"):
        raise UsageError(
            f"{pointer!r} is not a JSON pointer: it begins with '/', such as '/data/id'; the "
            "empty one is the whole document"
        )
    if _BAD_ESCAPE.search(pointer):
        raise UsageError(
            f"{pointer!r} is not a JSON pointer: write ~0 for '~' in a name, and ~1 for '/'"
        )
    parts = pointer.split("/")[1:]
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def compile_pointer(pointer: str) -> Follow:
    """Returns `MISSING` without a value. Raises UsageError for an invalid pointer."""
    way = steps(pointer)

    def follow(document: object) -> object:
        found = document
        for name in way:
            if type(found) is dict:
                found = found.get(name, MISSING)
            elif type(found) is list:
                found = _element(found, name)
            else:
                return MISSING
        return found

    if len(way) != 1:
        return follow
    [only] = way

    def follow_member(document: object) -> object:
        return document.get(only, MISSING) if type(document) is dict else follow(document)

    return follow_member


def _element(array: list[object], name: str) -> object:
    if len(name) > _INDEX_DIGITS or not _INDEX.fullmatch(name):
        return MISSING
    index = int(name)
    return array[index] if index < len(array) else MISSING
