"""Room for settled rows: partitions are made days ahead.

Owns the rule that nothing is claimed that could not be settled: without a partition for today the
processors are paused, and that is said. Every worker looks; the leader makes what is missing, and
when there is none for tomorrow, whoever sees it does. Promises to make partitions on a connection
of the duty's own. Known limit: partitions follow the database's UTC day.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from inboxd.store import partitions
from inboxd.store.partitions import Apart
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)


class History:
    """One turn: see how far the partitions reach, and make what is missing."""

    def __init__(
        self,
        pool: Pool,
        sql: Statements,
        ahead: timedelta,
        on_room: Callable[[str | None], None],
        leads: Callable[[], Awaitable[bool]],
        metrics: Metrics,
    ) -> None:
        """`on_room` hears why nothing can be settled, or None; `leads`: whether this one leads."""
        self._pool = pool
        self._sql = sql
        self._days = max(1, ahead.days)
        self._on_room = on_room
        self._leads = leads
        self._metrics = metrics

    async def turn(self) -> None:
        """Look once."""
        days, apart = await self._look()
        try:
            if days < 1 or (days < self._days and await self._leads()):
                async with borrow(self._pool) as connection:
                    await partitions.make(connection, self._sql, self._days)
                days, apart = await self._look()
        finally:
            self._judge(days, apart)

    async def _look(self) -> tuple[int, list[Apart]]:
        """How many days ahead there is room, and what was detached, if that is not far."""
        async with borrow(self._pool) as connection:
            days = await partitions.days_ahead(connection, self._sql)
            apart = await partitions.apart(connection, self._sql) if days < self._days else []
        return days, [each for each in apart if each.ahead >= 0]

    def _judge(self, days: int, in_the_way: Sequence[Apart]) -> None:
        self._metrics.partitions_ahead.set(days)
        missing = "history has no partition for today: nothing is claimed until there is one"
        if in_the_way:
            missing += f"; {in_the_way[0].part} is there, detached: attach it again, or rename it"
        self._on_room(missing if days < 0 else None)
        if days < 0:
            _log.error(missing)
        elif days < min(2, self._days):
            _log.warning(
                "history has no partition for tomorrow",
                days_ahead=days,
                detached=[each.part for each in in_the_way],
            )
