"""The leader: the one worker that runs the maintenance tasks which need only one.

Owns the question whether this worker leads; the database is asked before each run of such a task,
so that no outdated answer is used. Promises that the tasks move on when the leader leaves, drains,
or was declared dead by the reaper; and that in a rolling deploy the newest code leads as soon as it
is there, since older code leaves out the tasks that it does not know. Known limits: a leader that
was stopped in the middle of a run may end it when another leads already, so a task must be harmless
when two run it; a leader that lives, but whose run hangs, keeps the lead, and its task late.
"""

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.periodic import Run
from inboxd.store import leases
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_NAME = "leader"  # the row that the migrations made


class Leadership:
    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._led = False

    async def leads(self) -> bool:
        """Whether this worker leads; it becomes the leader if there was none."""
        context = self._context
        try:
            async with borrow(context.pool) as connection:
                leads = await leases.hold(
                    connection, context.sql, _NAME, context.me, from_older=True
                )
        except BaseException:
            self._show(leads=False)
            raise
        self._show(leads=leads)
        return leads

    def only(self, run: Run) -> Run:
        """A task that runs `run` if this worker leads, and nothing otherwise."""

        async def led() -> None:
            if await self.leads():
                await run()

        return led

    def _show(self, *, leads: bool) -> None:
        if leads is not self._led:
            _log.info("this worker leads" if leads else "this worker leads no more")
        self._led = leads
        self._context.metrics.leader.set(leads)
        if not leads:
            self._context.metrics.hide_partitions()
