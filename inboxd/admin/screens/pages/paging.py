"""Parts of lists: what of it a page shows, and how it goes on.

Promises at most 100 rows a page. Known limit: of a list that changed so that the last row of a
page is gone, the next page is the first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import QueryParams

from inboxd.admin.screens.pages.queries import page_size

_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class ListPart:
    """Some rows of a list. after: what the next part begins behind; None: there is none."""

    rows: list[dict[str, Any]]
    after: str | None
    whole: int


Key = Callable[[dict[str, Any]], str]


def part_of(
    rows: Sequence[dict[str, Any]], key: Key, query: QueryParams, words: Key | None = None
) -> ListPart:
    """The part that the query asks for, by `q`, `after` and `limit`.

    key: of a row, its own. words: in which `q` is looked for, unless that is the key. Raises
    UsageError.
    """
    wanted, words = (query.get("q") or "").casefold(), words or key
    found = [row for row in rows if wanted in words(row).casefold()]
    limit, after = page_size(query) if query.get("limit") else _ROWS, query.get("after")
    first = next((n + 1 for n, row in enumerate(found) if key(row) == after), 0)
    shown = found[first : first + limit]
    more = first + limit < len(found)
    return ListPart(shown, key(shown[-1]) if more else None, len(found))
