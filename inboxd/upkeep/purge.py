"""What has served its time is removed, so that no table grows for ever.

Owns the duties that delete. Known limit: none.
"""

from inboxd.store import workers
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements


class Ended:
    """One turn: forget workers that ended long ago."""

    def __init__(self, pool: Pool, sql: Statements) -> None:
        """Forget on connections of `pool`."""
        self._pool = pool
        self._sql = sql

    async def turn(self) -> None:
        """Look once."""
        async with borrow(self._pool) as connection:
            await workers.forget_ended(connection, self._sql)
