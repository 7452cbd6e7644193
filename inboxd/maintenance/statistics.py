"""Counts go to the stats table, and the backlog to the metrics.

Owns the two duties that only show things. Promises that what could not be written is kept for the
next turn. Known limit: see `inboxd.store.statistics`.
"""

from collections.abc import Mapping
from uuid import UUID

from inboxd.settings import Queue
from inboxd.store import intakes, lines, queues, statistics
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import Lane, Metrics


class Statistics:
    """Writes what this worker counted, and shows what is unsettled."""

    def __init__(self, pool: Pool, sql: Statements, metrics: Metrics, me: UUID) -> None:
        """Count for the worker `me`."""
        self._pool = pool
        self._sql = sql
        self._metrics = metrics
        self._me = me

    async def write(self) -> None:
        """Write the counts since the last turn."""
        counts = self._metrics.tally.drain_statistics()
        if not counts:
            return
        try:
            async with borrow(self._pool) as connection:
                await statistics.add(connection, self._sql, self._me, counts)
        except BaseException:
            self._metrics.tally.restore_statistics(counts)
            raise

    async def show(self, settings: Mapping[str, Queue]) -> None:
        """Show the backlog, and the blocked keys."""
        async with borrow(self._pool) as connection:
            seen = await statistics.backlog(connection, self._sql)
            blocked = await queues.blocked(connection, self._sql, settings)
            standing = await lines.count_blocked(connection, self._sql)
            held = await intakes.held(connection, self._sql)
        self._metrics.show_lanes(Lane(*row) for row in seen)  # type: ignore[arg-type]
        self._metrics.show_blocked(blocked)
        self._metrics.show_blocked_lines(standing)
        self._metrics.held_topics.set(held)
