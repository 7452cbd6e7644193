"""Splits an array in a JSON document into the texts of its elements; numbers keep all digits."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]  # the standard library's own

from inboxd.inbound.bodies import BrokenBody

# Numbers are skipped, not converted.
_skip = JSONDecoder(parse_int=str, parse_float=str).scan_once  # type: ignore[attr-defined]
_space = re.compile(r"[ \t\n\r]*").match


def elements(text: str, way: Sequence[str], most: int) -> list[str]:
    """`text` is valid JSON. Raises BrokenBody without an array, or above `most` elements."""
    where = "/" + "/".join(way) if way else "the body"
    try:
        at = _find(text, _after(text, 0), way)
        if at is None or text[at] != "[":
            raise BrokenBody(f"{where} is not an array, so there are no items")
        found = list(islice(_split(text, at), most + 1))
    except RecursionError:
        raise BrokenBody("the body is nested too deeply to be taken apart") from None
    if len(found) > most:
        raise BrokenBody(f"{where} has more than {most} items, the most that max_items allows")
    return found


def _find(text: str, at: int, way: Sequence[str]) -> int | None:
    for name in way:
        found = _member(text, at, name) if text[at] == "{" else None
        if found is None:
            return None
        at = found
    return at


def _member(text: str, at: int, name: str) -> int | None:
    """The position of the value of a member of the object at `at`; the last one of this name."""
    found = None
    at = _after(text, at + 1)
    while text[at] == '"':
        key, at = scanstring(text, at + 1, False)  # noqa: FBT003 - positional only
        at = _after(text, _after(text, at) + 1)
        if key == name:
            found = at
        at = _after(text, _skip(text, at)[1])
        if text[at] == ",":
            at = _after(text, at + 1)
    return found


def _split(text: str, at: int) -> Iterator[str]:
    at = _after(text, at + 1)
    while text[at] != "]":
        end = _skip(text, at)[1]
        yield text[at:end]
        at = _after(text, end)
        if text[at] == ",":
            at = _after(text, at + 1)


def _after(text: str, at: int) -> int:
    """The position of the next character that is not white space."""
    return _space(text, at).end()  # type: ignore[union-attr]  # it matches the empty string, too
