"""Divides a list into pages of at most 100 rows.

Known limit: if the last row of a page has disappeared meanwhile, the next page is the first one,
unless it is a list of names.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from inboxd.admin.screens.pages.queries import page_size

_ROWS: Final = 100
# The most rows of a list of names that are read at once.
LOOKED: Final = 500


@dataclass(frozen=True, slots=True)
class ListPart:
    """after: None on the last page. whole: rows of all pages; if `cut`, of the first ones read."""

    rows: list[dict[str, Any]]
    after: str | None
    whole: int
    cut: bool = False
    looked: int = 0


Key = Callable[[dict[str, Any]], str]
# Reads rows by name: at most `rows`, after a name.
ReadNames = Callable[..., Awaitable[Sequence[Any]]]


def part_of(
    rows: Sequence[dict[str, Any]], key: Key, query: QueryParams, words: Key | None = None
) -> ListPart:
    """key: the unique key of a row. words: the text in which `q` is searched. Raises UsageError."""
    wanted, words = (query.get("q") or "").casefold(), words or key
    found = [row for row in rows if wanted in words(row).casefold()]
    limit, after = page_size(query) if query.get("limit") else _ROWS, query.get("after")
    first = next((n + 1 for n, row in enumerate(found) if key(row) == after), 0)
    shown = found[first : first + limit]
    more = first + limit < len(found)
    return ListPart(shown, key(shown[-1]) if more else None, len(found))


async def part_by_name(
    read: ReadNames,
    query: QueryParams,
    matches: Callable[[Mapping[str, Any]], bool] = lambda _: True,
    *,
    name: str = "name",
) -> ListPart:
    """Read `LOOKED` rows; the next page goes on after the last of them. Raises UsageError.

    name: the key of each row that has its name.
    """
    after = query.get("after")
    first = rows = await read(rows=LOOKED + 1)
    if after and all(row[name] != after for row in first[: LOOKED - 1]):
        rows = await read(after=after, rows=LOOKED + 1)
    begin, part = (
        part_of([dict(row) for row in each[:LOOKED] if matches(row)], lambda row: row[name], query)
        for each in (first, rows)
    )
    go_on = rows[LOOKED - 1][name] if len(rows) > LOOKED else None
    looked = len(rows[:LOOKED])
    return ListPart(part.rows, part.after or go_on, begin.whole, len(first) > LOOKED, looked)
