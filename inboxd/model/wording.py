"""Texts for people: counts, time spans, sizes, statuses, titles of types. Plurals have an s."""

import re
from collections.abc import Mapping
from typing import Any

from inboxd.model.lifecycle import Status

# Statuses in words for people who do not know inboxd's terms.
STATUS_WORDS: dict[str, str] = {
    Status.PENDING: "due, or due later",
    Status.WAITING: "waits for other rows",
    Status.RUNNING: "runs",
    Status.SUCCEEDED: "done",
    Status.FAILED: "dead letter",
    Status.CANCELLED: "stopped",
    Status.DISMISSED: "put away",
}
# Shown in place of a type: the lines of a topic contain events of all types.
LINES = "(lines)"
# Replaces characters that are never shown.
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def plural(count: int, word: str) -> str:
    """A count with its noun: "1 row", "2 rows", "1,200 rows"."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def span(seconds: float) -> str:
    """A time in at most two units: "250ms", "3.4s", "8m4s", "2h5m", "1d3h"."""
    whole = round(seconds)
    if seconds < 1:
        return f"{_short(max(seconds, 0) * 1000)}ms" if seconds > 0 else "0s"
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{_short(seconds)}s"
    place = next(n for n, (_, size) in enumerate(_UNITS) if whole >= size)
    (unit, size), (next_unit, next_size) = _UNITS[place], _UNITS[place + 1]
    count, rest = divmod(whole, size)
    return f"{count}{unit}" + (f"{rest // next_size}{next_unit}" if rest >= next_size else "")


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")  # noqa: PLR2004


def short_number(number: float) -> str:
    """A number in at most five characters: "950", "1.2k", "34M"."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5:  # noqa: PLR2004 - the next unit
            return f"{_short(number)}{unit}" if unit or number != round(number) else f"{number:.0f}"
        number /= 1000
    return f"{_short(number)}T"


def size(number: float) -> str:
    """Bytes: "12 kB", "3.4 GB", counted as PostgreSQL does."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1024:  # noqa: PLR2004 - the next unit
            return f"{_short(number)} {unit}"
        number /= 1024
    return f"{_short(number)} TB"


def breaker_word(row: Mapping[str, Any]) -> str:
    if row["mode"] == "auto":
        return str(row["state"]).replace("_", "-")
    return "metrics only" if row["mode"] == "metrics_only" else f"forced {row['mode']}"


def title_from(type_: str) -> str:
    """A title made of a type: "order.shipped" becomes "Order shipped"."""
    words = " ".join(re.split(r"[._\-/:\s]+", type_)).strip()
    return words[:1].upper() + words[1:] if words else type_


def one_line(text: str, longest: int) -> str:
    """Characters that do not print, or change the direction of writing, are replaced."""
    short = text if len(text) <= longest else text[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return printable(short)


def printable(text: str) -> str:
    return "".join(c if c.isprintable() else _UNPRINTABLE for c in text)
