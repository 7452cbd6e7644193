"""What statistics say, for tests that ask by SQL: all that was counted, rolled up or not."""

from collections import Counter
from typing import Any, Protocol

# kind, lane, type, outcome, after, count.
COUNTED = """(
    select s.kind, s.lane, s.type, s.outcome, s.after, d.count
      from inboxd.stats_days d join inboxd.stats_series s on s.id = d.series
    union all
    select kind, lane, type, outcome, after, count from inboxd.stats_written) as counted"""


class _Asked(Protocol):
    """A test's database, or a connection."""

    async def fetch(self, query: str, /) -> Any:
        """The rows of a query."""


async def counted(database: _Asked, columns: str, where: str = "true") -> Counter[tuple[str, ...]]:
    """How many, by some of the columns."""
    rows = await database.fetch(
        f"select {columns}, sum(count)::int from {COUNTED} where {where} group by {columns}"
    )
    return Counter({tuple(row)[:-1]: row[-1] for row in rows})
