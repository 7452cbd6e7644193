"""The columns of many tables, and how counts of rows are shown: they stop at a limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inboxd.cli.output import Table, TableColumn


def numbers(*titles: str, extra: bool = False) -> tuple[TableColumn, ...]:
    """Columns of numbers."""
    return tuple(TableColumn(title, kind="number", extra=extra) for title in titles)


# Columns of many tables, by their titles.
_COMMON = {
    each.title: each
    for each in (
        TableColumn("id", kind="number"),
        TableColumn("type", cut="left"),
        TableColumn("in", "lane", cut="left"),
        TableColumn("attempts", kind="number", extra=True),
        TableColumn("tenant", cut="right", extra=True),
        TableColumn("created", "created_at", kind="time"),
        TableColumn("took", "duration", kind="span", extra=True),
        TableColumn("error", cut="right"),
        TableColumn("by", "actor", cut="right"),
        TableColumn("why", "reason", cut="right"),
    )
}


# A text is the title of a common column, or of one of plain text.
Columns = Sequence[TableColumn | str]


def table(columns: Columns, rows: Sequence[Any], title: str = "") -> Table:
    """A table of these columns."""
    found = (
        each if isinstance(each, TableColumn) else _COMMON.get(each) or TableColumn(each)
        for each in columns
    )
    return Table(tuple(found), rows, title)


def count(rows: int | None, most: int | None = None) -> str | None:
    """A count that stops at `most`, as that of a lane does: "10000+"."""
    from inboxd.store.listing import COUNTED

    if rows is None:
        return None
    return f"{rows}+" if rows >= (most or COUNTED) else str(rows)


def counted(name: str, title: str | None = None, **more: Any) -> TableColumn:
    """A column with a count that stops at a limit."""
    value: Callable[[Mapping[str, Any]], str | None] = lambda row: count(row[name])  # noqa: E731
    return TableColumn(title or name, value, kind="number", **more)


IN_LINE = counted("in_line", "in line", legend="wait behind others of the same ordering key")
UNMET = counted("unmet", "dependent", extra=True, legend="wait for other commands to end")
KEPT = "no living worker handles them"
