"""Printing: tables for people, plain columns for pipes, JSON for programs.

Owns how values look, and how a table finds room. On a terminal it is as wide as that: times become
ages ("3m ago"), then what may be cut is cut, types from the left since they differ at their ends,
then columns of least weight are left out, which is told; `--wide` prints whole values. In a pipe a
row is a line of whole values between tabs.
Promises: JSON has times in ISO 8601 and durations in seconds; times are those of the local zone
(TZ) and say so; what comes from rows cannot move the cursor or colour the terminal.
"""

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import typer

from inboxd.model.wording import span

_LEAST = 12  # what is cut keeps so many characters
_GAP = "  "
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its title, and what it shows of a row.

    value: the key of the row, or a function of the row; the title with underscores if left out.
    kind: numbers and spans stand to the right; a time may be text in ISO 8601, a span is in
    seconds. cut: which end goes where there is no room. extra: the first to be left out.
    legend: what the title means, printed below the table.
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


def numbers(*titles: str, extra: bool = False) -> tuple[TableColumn, ...]:
    """Columns of numbers."""
    return tuple(TableColumn(title, kind="number", extra=extra) for title in titles)


# Columns of many tables.
ID = TableColumn("id", kind="number")
TYPE = TableColumn("type", cut="left")
LANE = TableColumn("in", "lane", cut="left")
STATUS = TableColumn("status")
ATTEMPTS = TableColumn("attempts", kind="number", extra=True)
TENANT = TableColumn("tenant", cut="right", extra=True)
CREATED = TableColumn("created", "created_at", kind="time")
TOOK = TableColumn("took", "duration", kind="span", extra=True)
ERROR = TableColumn("error", cut="right")
BY = TableColumn("by", "actor", cut="right")
WHY = TableColumn("why", "reason", cut="right")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below their columns' titles, with a title of its own where there are several tables."""

    columns: Sequence[TableColumn]
    rows: Sequence[Any]
    title: str = ""

    def lines(self, width: int | None) -> Iterator[str]:
        """As a terminal of that width shows it; None: of any."""
        columns, cells, widths = self._fitted(width)
        if self.title:
            yield self.title
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
            yield f"(left out for want of room: {', '.join(left)}; --wide shows all)"

    def plain(self) -> Iterator[str]:
        """As a pipe gets it: whole values between tabs."""
        if self.title:
            yield self.title
        yield "\t".join(each.title for each in self.columns)
        for row in self.rows:
            yield "\t".join(show(_in_one_line(each.of(row))) for each in self.columns)

    def _worth(self) -> list[TableColumn]:
        """The columns that have something to say of at least one row."""
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


def print_table(table: Table, *, wide: bool = False) -> None:
    """Print it as whoever reads it can take it."""
    width = None if wide else terminal_width()
    for line in table.lines(width) if on_terminal() else table.plain():
        typer.echo(line)


def print_tables(tables: Iterable[Table], *, wide: bool = False) -> None:
    """Print them with an empty line between two."""
    for place, table in enumerate(tables):
        if place:
            typer.echo()
        print_table(table, wide=wide)


def on_terminal() -> bool:
    """Whether a person reads it."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """How many characters fit into a line."""
    return shutil.get_terminal_size().columns


def print_json(value: object, *, indent: bool = False) -> None:
    """One JSON document, on a line of its own unless a person reads it."""
    import orjson

    option = orjson.OPT_INDENT_2 if indent else 0
    typer.echo(orjson.dumps(value, default=_plain, option=option).decode())


def print_fields(heading: str, fields: Mapping[str, object]) -> None:
    """Names and values below each other, those without a value left out."""
    if heading:
        typer.echo(f"\n{heading}")
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            text = value if isinstance(value, str) else show(value)
            lines = [show(line) for line in text.splitlines()] or [""]
            typer.echo(f"  {name:<{width}}  " + f"\n  {'':<{width}}  ".join(lines))


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
            text = "".join(c if c.isprintable() else _UNPRINTABLE for c in str(value))
    return text


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
    """The widths when the widest of those that may be cut have been, as far as it goes."""
    room = list(widths)
    while _total(room) > width:
        able = [n for n, each in enumerate(columns) if each.cut and room[n] > _LEAST]
        if not able:
            break
        room[max(able, key=room.__getitem__)] -= 1
    return room


def _cut(text: str, room: int, end: Literal["left", "right"] | None) -> str:
    """The text in so many characters of a terminal, with a mark where it was cut."""
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
