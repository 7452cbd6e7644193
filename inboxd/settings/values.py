"""The value types of settings: durations, sizes, rates, lists.

Owns how a setting's text becomes a value and how a value is shown again. Promises that a duration
without a unit is refused: `30` could be seconds or milliseconds, `"30s"` cannot. (A size's unit is
in its key, `page_bytes`, so a plain number means bytes.)
Known limit: sizes have binary units only (KiB, MiB, GiB), the units of memory.
"""

import ipaddress
import json
import re
from datetime import timedelta
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_settings import NoDecode

from inboxd.model import duration

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_SIZE = re.compile(r"\s*(\d+)\s*(B|KiB|MiB|GiB)\s*")
_RATE = re.compile(r"\s*(-?\d+)\s*/\s*(s|m|h)\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_HIGHEST_RATE = 1_000_000


class Rate(NamedTuple):
    """At most `rows` in any period of `seconds`."""

    rows: int
    seconds: int


def parse_rate(value: object) -> Rate:
    """Read `"10/s"`, `"600/m"` or `"5000/h"`; raise `ValueError`."""
    if isinstance(value, Rate):
        return value
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a rate is a number per s, m or h, such as "10/s", "600/m" or "5000/h"')
    if not 0 < int(match[1]) <= _HIGHEST_RATE:
        raise ValueError(
            f"a rate of {match[1]} lets nothing run: use 1 to {_HIGHEST_RATE}; to stop a queue, "
            "pause it"
            if int(match[1]) <= 0
            else f"a rate of {match[1]} is too high: use 1 to {_HIGHEST_RATE}"
        )
    return Rate(int(match[1]), _SECONDS[match[2]])


def format_rate(rate: Rate) -> str:
    """Write a rate in the form that `parse_rate` reads."""
    return f"{rate.rows}/{next(unit for unit, s in _SECONDS.items() if s == rate.seconds)}"


def parse_size(value: object) -> int:
    """Read `"32MiB"`, or a plain number of bytes, as positive bytes; raise `ValueError`."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise ValueError('a size is a positive number with a unit, such as "64KiB" or "32MiB"')
    return int(match[1]) * _UNITS[match[2]]


def format_size(size: int) -> str:
    """Write bytes with the largest unit that divides them: 33554432 -> `"32MiB"`."""
    unit = max((u for u in _UNITS if size % _UNITS[u] == 0), key=_UNITS.__getitem__)
    return f"{size // _UNITS[unit]}{unit}"


def _positive_duration(value: object) -> timedelta:
    if not isinstance(value, str | timedelta):
        raise ValueError('a duration is a text with its unit, such as "250ms", "30s" or "1h30m"')  # noqa: TRY004 - pydantic gathers ValueError, not TypeError
    found = duration.parse(value)
    if not found:
        raise ValueError("a duration must be longer than zero")
    return found


FOREVER = "forever"
BY_DAYS = ": history is dropped by days"


def _retention(value: object) -> timedelta | None:
    if value is None or value == FOREVER:
        return None
    try:
        return _positive_duration(value)
    except ValueError as error:
        raise ValueError(f'{error}; or write "{FOREVER}"') from None


def at_least(days: int, why: str = "") -> AfterValidator:
    """Return a check of the shortest retention; None (for ever, or unset) is valid."""

    def check(value: timedelta | None) -> timedelta | None:
        if value is not None and value < timedelta(days=days):
            raise ValueError(f"must be at least {'a day' if days == 1 else f'{days} days'}{why}")
        return value

    return AfterValidator(check)


def _show_retention(value: timedelta | None) -> str:
    return FOREVER if value is None else duration.write(value)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private_url(url: str) -> bool:
    """Whether the URL's traffic is unreadable on the network: https, or http to this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or not url.isprintable() or " " in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _split(value: object) -> object:
    # The environment has no lists: INBOXD_WORKER__QUEUES="email,reports", or JSON like other
    # programs: '["email", "reports"]'.
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            return _decode(value)
        return tuple(item for item in (part.strip() for part in value.split(",")) if item)
    return value


def _decode(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(
            f'a list is "email, reports" or JSON, ["email", "reports"]; this is neither: {error}'
        ) from None


# The form of durations and sizes in the file, for editors (`inboxd.settings.json_schema`).
_A_DURATION = {"type": "string", "pattern": f"^{duration.PATTERN}$"}
_A_SIZE = {"type": "string", "pattern": f"^{_SIZE.pattern}$"}
_A_RATE = {"type": "string", "pattern": f"^{_RATE.pattern}$"}
_LIST = {"type": "array", "items": {"type": "string"}}
_TEXT_OF_NAMES = {"type": "string"}

Duration = Annotated[
    timedelta,
    BeforeValidator(_positive_duration),
    PlainSerializer(duration.write),
    WithJsonSchema(_A_DURATION),
]
# None: for ever.
Retention = Annotated[
    timedelta | None,
    BeforeValidator(_retention),
    PlainSerializer(_show_retention),
    WithJsonSchema({"anyOf": [_A_DURATION, {"enum": [FOREVER]}]}),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    WithJsonSchema({"anyOf": [_A_SIZE, {"type": "integer", "minimum": 1}]}),
]
RateLimit = Annotated[
    Any, BeforeValidator(parse_rate), PlainSerializer(format_rate), WithJsonSchema(_A_RATE)
]
Names = Annotated[
    tuple[str, ...],
    NoDecode,
    BeforeValidator(_split),
    WithJsonSchema({"anyOf": [_LIST, _TEXT_OF_NAMES]}),
]
# Decodes JSON, so that a number in the environment is an int. `None` stands inside: older versions
# of pydantic-settings do not see a list in `Annotated[...]
# None`.
NamesOrCount = Annotated[
    tuple[str, ...] | int | None,
    BeforeValidator(_split),
    WithJsonSchema({"anyOf": [_LIST, {"type": "integer"}, _TEXT_OF_NAMES, {"type": "null"}]}),
]
