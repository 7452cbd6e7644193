"""Open batches that nobody fills or closes any more.

Owns their expiry. Promises that an abandoned batch is seen (it is logged, counted and shown as
expired), and takes no more members; what is in it stays as it is, for an operator to close or
cancel. Known limit: how late it is noticed is the interval of maintenance.
"""

from inboxd.store import batches
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)


class Abandoned:
    """One turn: mark those whose time is up."""

    def __init__(self, pool: Pool, sql: Statements, metrics: Metrics) -> None:
        """Mark on connections of `pool`."""
        self._pool = pool
        self._sql = sql
        self._metrics = metrics

    async def turn(self) -> None:
        """Look once."""
        async with borrow(self._pool) as connection:
            expired = await batches.expire(connection, self._sql)
        for row in expired:
            self._metrics.batches_expired.inc()
            _log.error(
                "an open batch has expired: close it or cancel it",
                batch=row["id"],
                name=row["name"],
                members=row["size"],
                expired_at=row["expires_at"].isoformat(),
            )
