"""How counts of rows are shown: they stop at a limit, and what is said of waiting rows.

Owns the columns that status, queues and topics have in common.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inboxd.cli.output import TableColumn


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
