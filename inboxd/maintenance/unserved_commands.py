"""Commands that no live worker serves: visible dead letters, after a grace (promise 10, R0.38).

Owns the judgement that no worker serves a type of commands. Promises that a type which any live
worker declares is never touched, so that a rolling deploy loses nothing. Known limit: that of
`grace`. Events that nobody handles are for `inboxd.maintenance.unhandled_events`.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from time import monotonic

import orjson

from inboxd.maintenance.grace import Grace, IsOpen
from inboxd.model.lane import Sighting
from inboxd.store import commands, limits, workers
from inboxd.store.connections import Connection, Row
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1000

Fail = Callable[[Connection, Statements, Sighting, str, int, timedelta], Awaitable[int]]


class UnservedCommands:
    """One turn for the lanes and the lines of commands."""

    def __init__(self, pool: Pool, sql: Statements, grace: timedelta, is_open: IsOpen) -> None:
        """Make dead letters of what nobody has served for `grace`.

        `is_open` says that a lane is not paused: what an operator holds back is nobody's failure.
        """
        self._pool = pool
        self._sql = sql
        self._grace = grace
        self._is_open = is_open
        self._lanes = Grace(grace.total_seconds())
        self._lines = Grace(grace.total_seconds())

    async def turn(self) -> None:
        """Look once."""
        async with borrow(self._pool) as connection:
            living = await workers.living(connection, self._sql)
            seen = await commands.survey(connection, self._sql)
            lost = [s for s in seen if self._is_lost(s, living)]
            await self._fail(connection, lost, self._lanes, commands.fail_unserved)
            lines = await limits.survey(connection, self._sql)
            seen = [Sighting((line.queue, line.type, "keyed"), None, None) for line in lines]
            lost = [s for s in seen if self._is_lost(s, living)]
            await self._fail(connection, lost, self._lines, limits.fail_unserved)

    def _is_lost(self, lane: Sighting, living: Sequence[Row]) -> bool:
        queue, type_, _ = lane.key
        return self._is_open("queue", str(queue), str(type_)) and not any(
            type_ in row["commands"] and (not row["queues"] or queue in row["queues"])
            for row in living
        )

    async def _fail(
        self, connection: Connection, lost: list[Sighting], grace: Grace, fail: Fail
    ) -> None:
        due = grace.look([s.key for s in lost], monotonic())
        for lane in [s for s in lost if s.key in due]:
            type_ = lane.key[1]
            reason = (
                f"NoHandler: no live worker serves command type {type_!r}: install a plugin that "
                "declares it, then replay the row"
            )
            error = orjson.dumps({"error": reason}).decode()
            total = 0
            while failed := await fail(connection, self._sql, lane, error, _PAGE, self._grace):
                total += failed
            if total:
                _log.error("no handler", kind="command", type=type_, dead_letters=total)
