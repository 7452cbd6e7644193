"""The number of rows that match a filter, beside its button.

It may be a lower bound: counting looks at `_MOST` rows by `_MOST_REQUESTS`, stops after
`_MOST_SECONDS`, and begins only if enough of the page's time is left. All visitors with one filter
share it.
"""

from collections.abc import Collection
from functools import partial
from typing import Final

import anyio
from starlette.datastructures import QueryParams

from inboxd.admin.screens.screen import PageVisit
from inboxd.operations.counting import count_found
from inboxd.operations.totals import Exactness, Number
from inboxd.store import batch_listing
from inboxd.store.batch_listing import BatchFilter
from inboxd.store.finding import Filter
from inboxd.store.wakeups import HotTable

_FRESH_SECONDS: Final = 15.0
_MOST: Final = 10_000
_MOST_REQUESTS: Final = 2
_MOST_SECONDS: Final = 1.0
_LEFT_SECONDS: Final = 3.0


async def matching_rows(
    visit: PageVisit, table: HotTable, wanted: Filter, names: Collection[str], whole: int | None
) -> Number | None:
    """None: unknown, or no filter. whole: the rows of the page, if it has all that match."""
    asked = _asked(visit.query, names)
    if not asked:
        return None
    if whole is not None:
        return Number(whole)

    async def read() -> Number | None:
        left = anyio.current_effective_deadline() - anyio.current_time()
        if left < _LEFT_SECONDS:
            return None
        bounds = (_MOST, _MOST_SECONDS, _MOST_REQUESTS)
        return (await count_found(visit.session, table, wanted, *bounds)).total

    key = ("matches", table, wanted.tenant, asked)
    return await visit.shared.get(visit.session, key, _FRESH_SECONDS, read)


async def matching_batches(
    visit: PageVisit, wanted: BatchFilter, names: Collection[str], whole: int | None
) -> Number | None:
    asked = _asked(visit.query, names)
    if not asked:
        return None
    if whole is not None:
        return Number(whole)
    key = ("matches", wanted.kind, asked)
    read = partial(batch_listing.matching, visit.session, wanted, _MOST)
    found = await visit.shared.get(visit.session, key, _FRESH_SECONDS, read)
    if found is None:
        return None
    how = Exactness.EXACT if found["looked"] < _MOST else Exactness.AT_LEAST
    return Number(found["matched"], how)


def _asked(query: QueryParams, names: Collection[str]) -> tuple[tuple[str, str], ...]:
    """A time such as `2h` is another instant at each reading."""
    pairs = query.multi_items()
    return tuple(sorted((name, value) for name, value in pairs if value and name in names))
