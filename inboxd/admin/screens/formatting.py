"""The formats of values on a page; a time has its instant in UTC, which the script may localize."""

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
    """It is exact to the second, in UTC."""
    if value is None:
        return NOTHING
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    at = at.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}">{}</time>').format(exact, f"{at:%Y-%m-%d %H:%M:%S} UTC")


def clock(value: datetime) -> Markup:
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time class="clock" datetime="{}">{}</time>').format(exact, f"{at:%H:%M} UTC")


def dated(value: datetime) -> Markup:
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time class="dated" datetime="{}">{}</time>').format(
        exact, f"{at:%m-%d %H:%M} UTC"
    )


def moment(value: datetime) -> str:
    """An instant as a value for filters of lists: the minute, in UTC."""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def in_utc(text: str) -> str:
    """The command line would read a time without a zone as local; "2h" stays as it is."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return text if at.tzinfo else at.replace(tzinfo=UTC).isoformat()


def age(value: timedelta | float | None) -> Markup | str:
    """The script lets the age grow."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return Markup('<data class="age" value="{}">{}</data>').format(f"{seconds:.1f}", span(seconds))


def duration(value: timedelta | float | None) -> str:
    """Such as "8m4s". value: in seconds."""
    if value is None:
        return NOTHING
    return span(value.total_seconds() if isinstance(value, timedelta) else value)


def milliseconds(value: timedelta | float | None) -> str:
    """Such as "1,204 ms". value: in seconds."""
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
    """Such as "12 %"; a dash if the whole is 0."""
    return f"{100 * part / whole:.0f} %" if whole else NOTHING


def path_part(value: object) -> str:
    return quote(str(value), safe="")


def shell(value: str) -> str:
    return quoted(value)


def pointer(path: Sequence[str]) -> str:
    """A path as a JSON pointer: "/customer/id"."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def plain_json(value: object) -> str:
    """A list of texts is joined with commas."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return orjson.dumps(value, default=str).decode()


def open_parts(text: str) -> list[tuple[str, str | None]]:
    """Each piece has the name of the placeholder after it, if there is one."""
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
