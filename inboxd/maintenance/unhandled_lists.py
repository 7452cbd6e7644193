"""Events of batch topics whose lists nobody handles any more, or whose topic has another mode now.

Promises (promise 10) that they do not wait for ever: after the grace they go to
their lanes, as events that are run alone; where nobody takes them,
`unhandled_events` says what becomes of them. A topic whose workers ended less than a
week ago is not meant: a list waits in any case, and they may be back in time. Known limit: what is
taken away from such a topic on purpose waits for that week.
"""

from datetime import timedelta
from time import monotonic

from inboxd.maintenance.grace import Grace, IsOpen
from inboxd.model.horizon import BUCKETS
from inboxd.store import lines, lists, topics
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, lend, transaction
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1_000


class UnhandledLists:
    """One turn for all batch topics."""

    def __init__(self, pool: Pool, sql: Statements, grace: timedelta, is_open: IsOpen) -> None:
        """As `UnhandledEvents`, but for what the settings say of a type."""
        self._pool = pool
        self._sql = sql
        self._grace = grace
        self._is_open = is_open
        self._topics = Grace(grace.total_seconds())

    async def turn(self) -> None:
        """Look once."""
        async with lend(self._pool) as connection:
            async with transaction(self._pool, connection):
                arrived, heads = await lines.survey(connection, self._sql)
                modes = await topics.modes(connection, self._sql)
                served = await topics.served(connection, self._sql)
            waiting = {each.topic for each in arrived if each.mode == "batch"}
            waiting |= {str(seen.key[0]) for seen, mode in heads if mode == "batch"}
            lost = [
                (topic,)
                for topic in sorted(waiting)
                if self._is_open("topic", topic, "")
                and not (modes.get(topic) == "batch" and topic in served)
            ]
            for key in self._topics.look(lost, monotonic()):
                await self._scatter(connection, str(key[0]))

    async def _scatter(self, connection: Connection, topic: str) -> None:
        """Let a topic's events go to their lanes, page by page."""
        buckets, moved = [(topic, bucket) for bucket in range(BUCKETS)], 0
        while True:
            async with transaction(self._pool, connection):
                await lines.hold(connection, self._sql, buckets)
                page = await lists.scatter_topic(connection, self._sql, topic, _PAGE, self._grace)
            moved += page
            if not page:
                break
        if moved:
            _log.error(
                "events of a topic are in no list any more: they run alone",
                topic=topic,
                events=moved,
            )
