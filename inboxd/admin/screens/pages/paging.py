"""Divides a list into pages.

Promises at most 100 rows per page. Known limit: if the last row of a page has disappeared
meanwhile, the next page is the first one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from inboxd.admin.screens.pages.queries import page_size

_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class ListPart:
    """One page of a list. after: the key of its last row; None: it is the last page."""

    rows: list[dict[str, Any]]
    after: str | None
    whole: int


Key = Callable[[dict[str, Any]], str]


def part_of(
    rows: Sequence[dict[str, Any]], key: Key, query: QueryParams, words: Key | None = None
) -> ListPart:
    """The page that `q`, `after` and `limit` of the query select. Raises UsageError.

    key: gives the unique key of a row. words: gives the text in which `q` is searched, if that is
    not the key.
    """
    wanted, words = (query.get("q") or "").casefold(), words or key
    found = [row for row in rows if wanted in words(row).casefold()]
    limit, after = page_size(query) if query.get("limit") else _ROWS, query.get("after")
    first = next((n + 1 for n, row in enumerate(found) if key(row) == after), 0)
    shown = found[first : first + limit]
    more = first + limit < len(found)
    return ListPart(shown, key(shown[-1]) if more else None, len(found))
