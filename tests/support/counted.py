"""Counts of the statistics by SQL: rows that are rolled up, and rows that are not yet.

In a test: `assert await counted(database, "outcome", "type = 'a.b'") == {("succeeded",): 3}`.
"""

from collections import Counter
from typing import Any, Protocol

# Columns: kind, lane, type, outcome, after, count.
COUNTED = """(
    select s.kind, s.lane, s.type, s.outcome, s.after, d.count
      from inboxd.stats_days d join inboxd.stats_series s on s.id = d.series
    union all
    select kind, lane, type, outcome, after, count from inboxd.stats_written) as counted"""


class _Asked(Protocol):
    """A test's database, or a connection."""

    async def fetch(self, query: str, /) -> Any:
        """Return the rows of a query."""


async def counted(database: _Asked, columns: str, where: str = "true") -> Counter[tuple[str, ...]]:
    """The counts, grouped by these columns."""
    rows = await database.fetch(
        f"select {columns}, sum(count)::int from {COUNTED} where {where} group by {columns}"
    )
    return Counter({tuple(row)[:-1]: row[-1] for row in rows})
