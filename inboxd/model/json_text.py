"""JSON as text: validation and indentation that keep every number as it is written.

A refusal names the place and quotes nothing. Known limit: PostgreSQL's own limits of JSON, such as
a number's range, are not checked.
"""

import json
import re
from collections.abc import Iterator
from typing import NoReturn

from inboxd.errors import UsageError

_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


def check_json(text: str, place: str = "the payload") -> str:
    """Return the text if it is JSON. Raises UsageError, which names `place` and quotes nothing."""
    try:
        json.loads(text, parse_int=len, parse_float=len, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        told = f"{what[:1].lower()}{what[1:]} in line {error.lineno}"
        raise UsageError(f"{place} is not valid JSON: {told}, column {error.colno}") from None
    except ValueError as error:
        raise UsageError(f"{place} is not valid JSON: {error}") from None
    except RecursionError:
        raise UsageError(f"{place} is nested too deep") from None
    return text


def indented(text: str, most: int) -> str:
    """JSON on several lines; unchanged if that would be more than `most` characters."""
    parts, size = list[str](), 0
    for part in _parts(_TOKENS.findall(text)):
        size += len(part)
        if size > most:
            return text
        parts.append(part)
    return "".join(parts)


def _parts(pieces: list[str]) -> Iterator[str]:
    depth = 0
    for place, piece in enumerate(pieces):
        if piece in ("}", "]"):
            depth -= 1
            if pieces[place - 1] not in ("{", "["):
                yield "\n" + "  " * depth
        yield piece
        if piece in ("{", "["):
            depth += 1
        if piece == ",":
            yield "\n" + "  " * depth
        elif piece == ":":
            yield " "
        elif piece in ("{", "[") and pieces[place + 1] not in ("}", "]"):
            yield "\n" + "  " * depth


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"there is no number {name}")
