"""Printing: tables for people, plain columns for pipes, JSON for programs.

To fit a table into a terminal, times become ages ("3m ago"), then long values are cut (types from
the left, since they differ at their ends), then the least important columns are left out, which a
line below the table names; `--wide` prints everything. In a pipe a row is a line of whole values
separated by tabs, unless `--aligned` is given. JSON has times in ISO 8601 and durations in seconds;
other output has local times (TZ) with their zone; text from rows cannot move the cursor or colour
the terminal. If the encoding is not Unicode, our own signs become ASCII; other characters become
"?" on a terminal and escapes elsewhere, so that a pipe loses nothing.
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

_LEAST_WIDTH = 12  # characters that a cut cell keeps
_GAP = "  "
_DEL = "\x7f"
_BEYOND_ASCII = re.compile(f"[{_DEL}-\U0010ffff]+")
# Our own signs, and ASCII of the same width: heights and axes of plots, branches of trees, marks of
# cut, approximate, selected and unprintable values.
_ASCII = str.maketrans("▁▂▃▄▅▆▇█│┤└├┬─…≈◀\N{REPLACEMENT CHARACTER}", "_.:-=+*#|++++-.~<?")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """value: the key of the row, or a function of the row; default: the title with underscores.

    kind: numbers and spans are aligned right; a time may be text in ISO 8601, a span is in seconds.
    cut: the end that is cut if the table is too wide. extra: left out first, before the other
    columns from the right. legend: the meaning of the title, printed below the table.
    """

    title: str
    value: str | Callable[[Any], object] | None = None
    kind: Literal["text", "number", "time", "span"] = "text"
    cut: Literal["left", "right"] | None = None
    extra: bool = False
    legend: str = ""

    def of(self, row: Any) -> object:
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
    """Without columns only the title is printed."""

    columns: Sequence[TableColumn]
    rows: Sequence[Any]
    title: str = ""

    def lines(self, width: int | None) -> Iterator[str]:
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
        left = [each.title for each in self._filled() if each not in columns]
        if left and self.rows:
            yield f"(no room for {', '.join(left)}; --wide shows all)"

    def plain(self) -> Iterator[str]:
        if self.title:
            yield self.title
        if not self.columns:
            return
        yield "\t".join(each.title for each in self.columns)
        for row in self.rows:
            yield "\t".join(show(_in_one_line(each.of(row))) for each in self.columns)

    def _filled(self) -> list[TableColumn]:
        return [
            each
            for each in self.columns
            if not self.rows or any(each.of(row) not in (None, "") for row in self.rows)
        ]

    def _fitted(self, width: int | None) -> tuple[list[TableColumn], list[list[str]], list[int]]:
        columns = self._filled()
        while True:
            cells, widths = self._drawn(columns, show)
            if width is None or _total(widths) <= width:
                return columns, cells, widths
            cells, widths = self._drawn(columns, _relative)
            room = _shrunk(columns, widths, width)
            least = next((each for each in reversed(columns) if each.extra), None)
            if least is None and len(columns) > 1:  # the last column is the least important
                least = columns[-1]
            if _total(room) <= width or least is None:
                ends = [each.cut for each in columns]
                cut = [list(map(_cut, line, room, ends)) for line in cells]
                return columns, cut, room
            columns.remove(least)

    def _drawn(
        self, columns: Sequence[TableColumn], draw: Callable[[object], str]
    ) -> tuple[list[list[str]], list[int]]:
        from rich.cells import cell_len

        cells = [[draw(_first_line(each.of(row))) for each in columns] for row in self.rows]
        lines = [[each.title for each in columns], *cells]
        return cells, [max(map(cell_len, column)) for column in zip(*lines, strict=True)]


@dataclass(frozen=True, slots=True)
class Fields:
    """Lines of names and values, without names that have no value."""

    values: Mapping[str, object]
    heading: str = ""

    def lines(self) -> Iterator[str]:
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
    name: str
    value: object

    def lines(self) -> Iterator[str]:
        yield f"{self.name}:"
        yield from _escaped(json_text(self.value, indent=True)).splitlines()


Part = Table | Fields | Document | str


def print_parts(parts: Iterable[Part], *, wide: bool = False, aligned: bool = False) -> None:
    """aligned: print tables into a pipe as on a terminal."""
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
    """Print a remark to standard error, since a pipe gets only rows."""
    lines = (_for_stream(show(line), sys.stderr) for line in text.split("\n"))
    typer.echo("\n".join(lines), err=True)


def say(line: str) -> None:
    typer.echo(_for_stream(line, sys.stdout))


def encodable(text: str, encoding: str, missing: str = "replace") -> str:
    """Our own signs become ASCII. missing: a handler of codecs; "replace" keeps the width."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, missing).decode(encoding)
    return text


def _for_stream(text: str, stream: TextIO) -> str:
    missing = "replace" if stream.isatty() else "backslashreplace"
    return encodable(text, stream.encoding or "utf-8", missing)


def on_terminal() -> bool:
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Return the characters per line; in a pipe, of the terminal that started the command."""
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            here = os.get_terminal_size(descriptor)
            return shutil.get_terminal_size(here).columns
    return shutil.get_terminal_size().columns


def print_json(value: object, *, indent: bool = False) -> None:
    typer.echo(_escaped(json_text(value, indent=indent)))


def _escaped(text: str) -> str:
    """Terminals also obey DEL, C1 and direction characters, which JSON does not have to escape."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return _BEYOND_ASCII.sub(_in_ascii, text)
    return _BEYOND_ASCII.sub(lambda f: f[0] if f[0].isprintable() else _in_ascii(f), text)


def _in_ascii(found: re.Match[str]) -> str:
    return "".join(json.dumps(each)[1:-1] if each > _DEL else "\\u007f" for each in found[0])


def json_text(value: object, *, indent: bool = False) -> str:
    """Raises UsageError for a value that is nested too deep for orjson and Python's json."""
    import orjson

    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        return orjson.dumps(value, default=_plain, option=option).decode()
    except orjson.JSONEncodeError:
        try:
            return json.dumps(value, default=_plain_to_json, ensure_ascii=False)
        except RecursionError:
            raise UsageError(
                "the JSON is nested too deep to be shown: select it with psql"
            ) from None


def show(value: object) -> str:
    """Format a value: without control characters, times with their zone, short durations."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:.3g}" if value < 1 else f"{value:.1f}"
        case datetime():  # local, in the format that `--since` and `--at` read
            text = value.astimezone().isoformat(" ", "seconds").replace("+00:00", "Z")
        case timedelta():
            text = span(value.total_seconds())
        case list() | tuple():
            text = ", ".join(map(show, value)) or "-"
        case _:
            text = printable(str(value))
    return text


def _shown_line(line: str) -> str:
    """Format a line of foreign text like `show`, but keep tabs and a final carriage return."""
    end = "\r" if line.endswith("\r") else ""
    return "\t".join(map(show, line.removesuffix("\r").split("\t"))) + end


def _relative(value: object) -> str:
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
    room = list(widths)
    while _total(room) > width:
        able = [n for n, each in enumerate(columns) if each.cut and room[n] > _LEAST_WIDTH]
        if not able:
            break
        room[max(able, key=room.__getitem__)] -= 1
    return room


def _cut(text: str, room: int, end: Literal["left", "right"] | None) -> str:
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
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def _plain_to_json(value: object) -> object:
    """Convert values that json does not support, to the same text as orjson's."""
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return _plain(value)
