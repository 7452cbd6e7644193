"""Printing: tables for people, plain columns for pipes, JSON for programs.

Owns how values look, and how a table finds room. On a terminal it is as wide as that: times become
ages ("3m ago"), then what may be cut is cut, types from the left since they differ at their ends,
then columns of least weight are left out, which is noted; `--wide` prints whole values. In a pipe a
row is a line of whole values between tabs, unless `--aligned` is given.
Promises: JSON has times in ISO 8601 and durations in seconds; times are those of the local zone
(TZ) and name it; what comes from rows cannot move the cursor or colour the terminal. Where the
encoding is not Unicode's, our own signs become ASCII; other characters become "?" on a terminal and
escapes elsewhere, so that a pipe loses nothing.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TextIO

import typer

from inboxd.errors import UsageError
from inboxd.model.wording import printable, span

_LEAST = 12  # characters that a cut cell keeps
_GAP = "  "
_DEL = "\x7f"
_BEYOND_ASCII = re.compile(f"[{_DEL}-\U0010ffff]+")
# Our own signs, each with one of the same width in ASCII: the heights of plots, their axes, the
# branches of trees, the marks of what is cut, approximate, asked for, or unprintable.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█│┤└├┬─…≈◀\N{REPLACEMENT CHARACTER}", "_.:-=+*#|++++-.~<?")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its title, and what it shows of a row.

    value: the key of the row, or a function of the row; the title with underscores if left out.
    kind: numbers and spans stand to the right; a time may be text in ISO 8601, a span is in
    seconds. cut: which end goes where there is no room. extra: the first to be left out; then the
    last columns are. legend: what the title means, printed below the table.
    """

    title: str
    value: str | Callable[[Any], object] | None = None
    kind: Literal["text", "number", "time", "span"] = "text"
    cut: Literal["left", "right"] | None = None
    extra: bool = False
    legend: str = ""

    def of(self, row: Any) -> object:
        """What it shows of a row."""
        if callable(self.value):
            found = self.value(row)
        else:
            found = row[self.title.replace(" ", "_") if self.value is None else self.value]
        if self.kind == "time" and isinstance(found, str):
            return datetime.fromisoformat(found)
        if self.kind == "span" and isinstance(found, int | float):
            return timedelta(seconds=found)
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below their columns' titles, with a title of its own where there are several tables.

    Without columns it is its title alone.
    """

    columns: Sequence[TableColumn]
    rows: Sequence[Any]
    title: str = ""

    def lines(self, width: int | None) -> Iterator[str]:
        """As a terminal of that width shows it; None: of any."""
        columns, cells, widths = self._fitted(width)
        if self.title:
            yield self.title
        if not columns:
            return
        titles = [
            _cut(each.title, room, "right") for each, room in zip(columns, widths, strict=True)
        ]
        for line in (titles, ["-" * room for room in widths], *cells):
            parts = zip(columns, line, widths, strict=True)
            yield _GAP.join(_aligned(*each) for each in parts).rstrip()
        for each in columns if self.rows else ():
            if each.legend:
                yield f"{each.title}: {each.legend}"
        left = [each.title for each in self._worth() if each not in columns]
        if left and self.rows:
            yield f"(no room for {', '.join(left)}; --wide shows all)"

    def plain(self) -> Iterator[str]:
        """As a pipe gets it: whole values between tabs."""
        if self.title:
            yield self.title
        if not self.columns:
            return
        yield "\t".join(each.title for each in self.columns)
        for row in self.rows:
            yield "\t".join(show(_in_one_line(each.of(row))) for each in self.columns)

    def _worth(self) -> list[TableColumn]:
        """The columns that have a value in at least one row."""
        return [
            each
            for each in self.columns
            if not self.rows or any(each.of(row) not in (None, "") for row in self.rows)
        ]

    def _fitted(self, width: int | None) -> tuple[list[TableColumn], list[list[str]], list[int]]:
        """The columns that find room, their cells, and how wide they are."""
        columns = self._worth()
        while True:
            cells, widths = self._drawn(columns, show)
            if width is None or _total(widths) <= width:
                return columns, cells, widths
            cells, widths = self._drawn(columns, _relative)
            room = _shrunk(columns, widths, width)
            least = next((each for each in reversed(columns) if each.extra), None)
            if least is None and len(columns) > 1:  # of the others, too, the last is worth least
                least = columns[-1]
            if _total(room) <= width or least is None:
                ends = [each.cut for each in columns]
                cut = [list(map(_cut, line, room, ends)) for line in cells]
                return columns, cut, room
            columns.remove(least)

    def _drawn(
        self, columns: Sequence[TableColumn], draw: Callable[[object], str]
    ) -> tuple[list[list[str]], list[int]]:
        """The cells, and how wide each column is."""
        from rich.cells import cell_len

        cells = [[draw(_first_line(each.of(row))) for each in columns] for row in self.rows]
        lines = [[each.title for each in columns], *cells]
        return cells, [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values below each other, those without a value left out."""

    values: Mapping[str, object]
    heading: str = ""

    def lines(self) -> Iterator[str]:
        """As a terminal and a pipe show it."""
        if self.heading:
            yield show(self.heading)
        width = max(map(len, self.values), default=0)
        for name, value in self.values.items():
            if value is not None:
                text = value if isinstance(value, str) else show(value)
                first, *rest = [_shown_line(line) for line in text.splitlines()] or [""]
                yield f"  {name:<{width}}  {first}"
                yield from (f"  {'':<{width}}  {line}" for line in rest)


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON value below its name, as it is: a payload is the row's own."""

    name: str
    value: object

    def lines(self) -> Iterator[str]:
        """As a terminal and a pipe show it."""
        yield f"{self.name}:"
        yield from _escaped(json_text(self.value, indent=True)).splitlines()


Part = Table | Fields | Document | str


def print_parts(parts: Iterable[Part], *, wide: bool = False, aligned: bool = False) -> None:
    """Print them for a terminal or a pipe, with an empty line between two.

    aligned: also a pipe gets tables as a terminal does.
    """
    width = None if wide else terminal_width()
    for place, part in enumerate(parts):
        if place:
            typer.echo()
        if isinstance(part, Table):
            lines = part.lines(width) if aligned or on_terminal() else part.plain()
        elif isinstance(part, str):
            lines = map(_shown_line, part.split("\n"))
        else:
            lines = part.lines()
        for line in lines:
            say(line)


def remark(text: str) -> None:
    """Say something beside what is printed: to people, since a pipe gets rows alone."""
    lines = (_for_stream(show(line), sys.stderr) for line in text.split("\n"))
    typer.echo("\n".join(lines), err=True)


def say(line: str) -> None:
    """Print a line of our own words, whatever the encoding of the output is."""
    typer.echo(_for_stream(line, sys.stdout))


def encodable(text: str, encoding: str, missing: str = "replace") -> str:
    """Replace what an encoding does not have: our own signs by ASCII, the rest as `missing` says.

    missing: an error handler of codecs; "replace" keeps the width.
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, missing).decode(encoding)
    return text


def _for_stream(text: str, stream: TextIO) -> str:
    missing = "replace" if stream.isatty() else "backslashreplace"
    return encodable(text, stream.encoding or "utf-8", missing)


def on_terminal() -> bool:
    """Whether a person reads it."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """How many characters fit into a line; of a pipe: of the terminal that it was typed at."""
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            here = os.get_terminal_size(descriptor)
            return shutil.get_terminal_size(here).columns
    return shutil.get_terminal_size().columns


def print_json(value: object, *, indent: bool = False) -> None:
    """One JSON document: on a line of its own, or over several."""
    typer.echo(_escaped(json_text(value, indent=indent)))


def _escaped(text: str) -> str:
    """The same JSON without what moves a cursor, and in ASCII if the output's encoding lacks some.

    JSON itself wants only the oldest control characters escaped: not DEL, not those of C1, which a
    terminal obeys as well, and not those that turn the direction of writing.
    """
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return _BEYOND_ASCII.sub(_in_ascii, text)
    return _BEYOND_ASCII.sub(lambda f: f[0] if f[0].isprintable() else _in_ascii(f), text)


def _in_ascii(found: re.Match[str]) -> str:
    return "".join(json.dumps(each)[1:-1] if each > _DEL else "\\u007f" for each in found[0])


def json_text(value: object, *, indent: bool = False) -> str:
    """One JSON document; with an indent, for a person, unless it is nested deeper than orjson goes.

    Raises UsageError for what is nested deeper still.
    """
    import orjson

    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        return orjson.dumps(value, default=_plain, option=option).decode()
    except orjson.JSONEncodeError:
        try:
            return json.dumps(value, default=_plain_to_json, ensure_ascii=False)
        except RecursionError:
            raise UsageError(
                "its JSON is nested too deep to be shown: select it with psql"
            ) from None


def show(value: object) -> str:
    """A value for a person: no control characters, times with their zone, durations short."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:.3g}" if value < 1 else f"{value:.1f}"
        case datetime():  # in the local zone, and as `--since` and `--at` read it
            text = value.astimezone().isoformat(" ", "seconds").replace("+00:00", "Z")
        case timedelta():
            text = span(value.total_seconds())
        case list() | tuple():
            text = ", ".join(map(show, value)) or "-"
        case _:
            text = printable(str(value))
    return text


def _shown_line(line: str) -> str:
    """A line of somebody's text: as `show`, but tabs stay, and what belongs to its line break."""
    end = "\r" if line.endswith("\r") else ""
    return "\t".join(map(show, line.removesuffix("\r").split("\t"))) + end


def _relative(value: object) -> str:
    """As `show`, but for times: how long ago, or how soon."""
    if not isinstance(value, datetime):
        return show(value)
    away = (datetime.now(UTC) - value).total_seconds()
    return f"{span(int(away))} ago" if away >= 0 else f"in {span(int(-away))}"


def _first_line(value: object) -> object:
    return value.partition("\n")[0] if isinstance(value, str) else value


def _in_one_line(value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _shrunk(columns: Sequence[TableColumn], widths: Sequence[int], width: int) -> list[int]:
    """The widths, the widest that may be cut made narrower until they fit or none may be."""
    room = list(widths)
    while _total(room) > width:
        able = [n for n, each in enumerate(columns) if each.cut and room[n] > _LEAST]
        if not able:
            break
        room[max(able, key=room.__getitem__)] -= 1
    return room


def _cut(text: str, room: int, end: Literal["left", "right"] | None) -> str:
    """The text in that many characters of a terminal, with a mark where it was cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= room or end is None:
        return text
    if end == "right":
        return set_cell_size(text, room - 1) + "…"
    return "…" + set_cell_size(text[::-1], room - 1)[::-1]


def _aligned(column: TableColumn, text: str, room: int) -> str:
    from rich.cells import cell_len

    space = " " * (room - cell_len(text))
    return space + text if column.kind in ("number", "span") else text + space


def _plain(value: object) -> object:
    """What orjson does not know by itself."""
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def _plain_to_json(value: object) -> object:
    """What orjson knows by itself too, as it writes it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return _plain(value)
