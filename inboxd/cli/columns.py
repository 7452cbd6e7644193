"""Columns that many tables share, and the format of counts that stop at a limit."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from inboxd.cli.output import Table, TableColumn
from inboxd.model.wording import title_from

if TYPE_CHECKING:
    from inboxd.operations.totals import Number

_LOOKS = {"exact": "{:,}", "at_least": "{:,}+", "about": "≈ {:,}"}


def numbers(*titles: str, extra: bool = False) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(title, kind="number", extra=extra) for title in titles)


_COMMON = {
    each.title: each
    for each in (
        TableColumn("id", kind="number"),
        TableColumn("type", cut="left"),
        TableColumn("topic/queue", "lane", cut="left"),
        TableColumn("attempts", kind="number", extra=True),
        TableColumn("tenant", cut="right", extra=True),
        TableColumn("created", "created_at", kind="time"),
        TableColumn("took", "duration", kind="span", extra=True),
        TableColumn("error", cut="right"),
        TableColumn("by", "actor", cut="right"),
        TableColumn("why", "reason", cut="right"),
    )
}


# A string is the title of a column in `_COMMON`, or of a plain text column.
Columns = Sequence[TableColumn | str]


def table(columns: Columns, rows: Sequence[Any], title: str = "") -> Table:
    found = (
        each if isinstance(each, TableColumn) else _COMMON.get(each) or TableColumn(each)
        for each in columns
    )
    return Table(tuple(found), rows, title)


def count(rows: int | None, most: int | None = None) -> str | None:
    """Format a count that stops at `most`: "10000+"."""
    from inboxd.store.listing import COUNTED

    if rows is None:
        return None
    return f"{rows}+" if rows >= (most or COUNTED) else str(rows)


def exactly(number: "Number") -> str:
    """Format a total with its exactness: "10,000+" is at least 10,000, "≈ 10,000" about."""
    return _LOOKS[number.exactness].format(number.value)


def counted(
    name: str, title: str | None = None, *, most: int | None = None, **more: Any
) -> TableColumn:
    value: Callable[[Mapping[str, Any]], str | None] = lambda row: count(row[name], most)  # noqa: E731
    return TableColumn(title or name, value, kind="number", **more)


def in_line(most: int | None = None) -> TableColumn:
    return counted("in_line", "in line", most=most, extra=True, legend=IN_LINE)


def unmet(most: int | None = None) -> TableColumn:
    legend = "wait for other commands to end"
    return counted("unmet", "dependent", most=most, extra=True, legend=legend)


def own_title(type_: str, title: str | None) -> str | None:
    """Return a type's title, None if it is only derived from the type's name."""
    return None if title == title_from(type_) else title


TITLE = TableColumn(
    "title", lambda row: own_title(row["type"], row.get("title")), cut="right", extra=True
)
# Legend of rows that wait for other rows, not for a worker.
IN_LINE = "behind others of their key; in batch topics, until their chunk is due"
# Precision of percentiles: see `model/durations.py`.
WITHIN = "to within a factor of two"
KEPT = "no living worker handles them"
WITHOUT_A_PLACE = "at least: this tenant has no place of its own now (history.stats_tenants)"
ROWS = "rows; an event has one in each of its topics"
