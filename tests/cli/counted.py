"""Statistics for tests of the commands that show them.

count(sql, "30 minutes", 40, lane="orders", outcome="failed")
"""

from collections.abc import Callable
from typing import Any

Sql = Callable[..., list[Any]]


def count(
    sql: Sql,
    ago: str,
    rows: int,
    *,
    kind: str = "event",
    lane: str = "orders",
    type: str = "order.paid",
    outcome: str = "succeeded",
    after: str = "",
    took: str = "{}",
    longest: float = 12.0,
    tenant: str | None = None,
) -> None:
    """Write the statistics of some executions.

    ago: an interval of PostgreSQL. took: the histogram of each time. longest: seconds.
    """
    sql(
        """INSERT INTO inboxd.stats_written (minute, kind, lane, type, outcome, after, count,
                  run_total, run_maximum, run_histogram, wait_total, wait_maximum, wait_histogram,
                  completion_total, completion_maximum, completion_histogram, tenant)
           SELECT date_trunc('minute', now() - $1::text::interval), $2, $3, $4, $5, $6, $7::bigint,
                  $7::bigint, $9, $8::text::integer[], $7::bigint, $9, $8::text::integer[],
                  $7::bigint, $9, CASE WHEN $5 = 'succeeded' THEN $8::text::integer[] END,
                  $10""",
        *(ago, kind, lane, type, outcome, after, rows, took, longest, tenant),
    )
