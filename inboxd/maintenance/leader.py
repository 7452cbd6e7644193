"""The leader: the one worker that does the duties which need only one.

Owns the question whether this worker leads, asked of the database before each turn of such a duty,
so nothing is remembered that may be wrong by now. Promises that the duties move on when the leader
leaves, drains, or was declared dead by the reaper. Known limits: a leader that was stopped in the
middle of a turn may end it when another leads already, so a duty must be harmless when two do it;
one that lives, but whose turn hangs, keeps the lead, and its duty late.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

from inboxd.store import leases
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

_NAME = "upkeep"  # the row that the migrations made

Turn = Callable[[], Awaitable[None]]


class Leadership:
    """Whether this worker leads."""

    def __init__(self, pool: Pool, sql: Statements, metrics: Metrics, me: UUID) -> None:
        """Ask for the worker `me`."""
        self._pool = pool
        self._sql = sql
        self._metrics = metrics
        self._me = me
        self._led = False

    async def leads(self) -> bool:
        """Whether this worker leads now; it does from now on, if nobody did."""
        try:
            async with borrow(self._pool) as connection:
                leads = await leases.hold(connection, self._sql, _NAME, self._me)
        except BaseException:
            self._show(leads=False)
            raise
        self._show(leads=leads)
        return leads

    def only(self, turn: Turn) -> Turn:
        """The same duty, done by the leader and left out by the others."""

        async def led() -> None:
            if await self.leads():
                await turn()

        return led

    def _show(self, *, leads: bool) -> None:
        if leads is not self._led:
            _log.info("this worker leads" if leads else "this worker leads no more")
        self._led = leads
        self._metrics.leader.set(leads)
        if not leads:
            self._metrics.hide_partitions()
