"""Durations that carry their unit: "30s", "1h30m", "250ms", "2d", or a timedelta.

A bare number is refused; nothing is rounded. Known limit: a hundred years at most.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from inboxd.errors import UsageError

Duration = str | timedelta

LONGEST = timedelta(days=36_525)

_MICROSECONDS = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(ms|[dhms])")
PATTERN = rf"(?:{_PART.pattern} ?)+"
_WHOLE = re.compile(PATTERN)
_EXAMPLES = 'write a number with its unit (ms, s, m, h, d), such as "30s", "250ms" or "1h30m"'


def parse(value: Duration) -> timedelta:
    """Read a duration; raises UsageError for a bare number, an unknown unit, or one too long."""
    found = value if isinstance(value, timedelta) else _read(value)
    if not timedelta(0) <= found <= LONGEST:
        raise UsageError(f"{value!r} is out of range: a duration lies between 0s and 36525d.")
    return found


def seconds(value: Duration) -> float:
    """The duration in seconds; raises UsageError as `parse` does."""
    return parse(value).total_seconds()


def write(value: timedelta) -> str:
    rest = value // timedelta(microseconds=1)
    parts = []
    for unit, size in _MICROSECONDS.items():
        count, rest = divmod(rest, size)
        if unit == "ms" and rest:
            parts.append(f"{count}.{rest:03d}".rstrip("0") + unit)
        elif count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _read(text: object) -> timedelta:
    if not (isinstance(text, str) and _WHOLE.fullmatch(text)):
        raise UsageError(f"{text!r} is not a duration: {_EXAMPLES}.")
    total = sum(Fraction(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(text))
    if total > LONGEST // timedelta(microseconds=1):
        raise UsageError(f"{text!r} is out of range: a duration lies between 0s and 36525d.")
    if total != int(total):
        raise UsageError(f"{text!r} is finer than a microsecond: {_EXAMPLES}.")
    return timedelta(microseconds=int(total))
