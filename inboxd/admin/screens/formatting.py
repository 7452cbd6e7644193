"""The formats of values on a page: times, durations, numbers, sizes.

Promises that a time is marked up with its instant in UTC, which the script may show in local time.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote as quoted
from string import Formatter
from urllib.parse import quote

import orjson
from markupsafe import Markup

from inboxd.model.wording import breaker_word, size, span

NOTHING = "\N{EN DASH}"


def time(value: datetime | str | None) -> Markup | str:
    """An instant, in UTC, to the second."""
    if value is None:
        return NOTHING
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    at = at.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(exact, f"{at:%Y-%m-%d %H:%M:%S} UTC")


def clock(value: datetime) -> Markup:
    """Hour and minute of an instant, in UTC."""
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time class="clock" datetime="{}">{}</time>').format(exact, f"{at:%H:%M} UTC")


def dated(value: datetime) -> Markup:
    """Day, hour and minute of an instant, in UTC."""
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time class="dated" datetime="{}">{}</time>').format(
        exact, f"{at:%m-%d %H:%M} UTC"
    )


def moment(value: datetime) -> str:
    """An instant as a value for filters of lists: the minute, in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def in_utc(text: str) -> str:
    """Add UTC to a time without a zone, since the command line would read it as local.

    Other texts, such as "2h", are returned unchanged.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if at.tzinfo else at.replace(tzinfo=UTC).isoformat()


def age(value: timedelta | float | None) -> Markup | str:
    """An age at the time of reading, which the script lets grow."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return Markup('<data class="age" value="{}">{}</data>').format(f"{seconds:.1f}", span(seconds))


def duration(value: timedelta | float | None) -> str:
    """A duration, such as "8m4s". value: in seconds."""
    if value is None:
        return NOTHING
    return span(value.total_seconds() if isinstance(value, timedelta) else value)


def milliseconds(value: timedelta | float | None) -> str:
    """A duration in milliseconds: "1,204 ms". value: in seconds."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    number = seconds * 1000
    return f"{number:,.1f} ms" if number < 10 else f"{number:,.0f} ms"  # noqa: PLR2004


def number(value: float | None) -> str:
    """A number with commas; with one decimal, if it is below 100 and not whole."""
    if value is None:
        return NOTHING
    if isinstance(value, int) or value == round(value) or abs(value) >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:,.1f}"


def share(part: float, whole: float) -> str:
    """A percentage: "12 %"; a dash if the whole is 0."""
    return f"{100 * part / whole:.0f} %" if whole else NOTHING


def path_part(value: object) -> str:
    """A value as one segment of a path, with all its special characters quoted."""
    return quote(str(value), safe="")


def shell(value: str) -> str:
    """A word for a command line, quoted if necessary."""
    return quoted(value)


def pointer(path: Sequence[str]) -> str:
    """A path as a JSON pointer: "/customer/id"."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def plain_json(value: object) -> str:
    """A JSON value on one line; a list of texts is joined with commas."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return orjson.dumps(value, default=str).decode()


def open_parts(text: str) -> list[tuple[str, str | None]]:
    """The pieces of a text, each with the name of the placeholder after it, if there is one."""
    return [(literal, name) for literal, name, _, _ in Formatter().parse(text)]


FILTERS: Mapping[str, Callable[..., object]] = {
    "open_parts": open_parts,
    "time": time,
    "age": age,
    "clock": clock,
    "dated": dated,
    "moment": moment,
    "duration": duration,
    "milliseconds": milliseconds,
    "number": number,
    "share": share,
    "breaker_word": breaker_word,
    "bytes": size,
    "path_part": path_part,
    "shell": shell,
    "pointer": pointer,
    "plain_json": plain_json,
}
