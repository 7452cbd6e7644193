"""Topics and subscriptions that nobody declares any more.

Owns the duty that notices them. Promises that a subscription is kept for a week after its last
worker ended, so that its topic misses nothing in between, and that it is told when it goes. Known
limit: a worker that comes back later has missed what was emitted after that week.
"""

from inboxd.store import topics
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


class Topics:
    """Looks after what is declared."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        """Look on connections of `pool`."""
        self._pool = pool
        self._sql = sql

    async def look_after(self) -> None:
        """Mark what nobody declares any more, and forget it after a week."""
        async with borrow(self._pool) as connection:
            marked, unsubscribed = await topics.mark_undeclared(connection, self._sql)
            gone, ended = await topics.forget_undeclared(connection, self._sql)
        if marked:
            _log.warning("no living worker declares these topics", topics=marked)
        for row in unsubscribed:
            _log.warning(
                "no living worker declares this subscription; it is kept for a week",
                topic=row["topic"],
                type=row["type"],
            )
        if gone:
            _log.info("removed topics that nobody declares", topics=gone)
        for row in ended:
            _log.warning("a subscription has ended", topic=row["topic"], type=row["type"])
