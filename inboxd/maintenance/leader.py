"""The leader: the worker that runs the maintenance tasks which need only one worker.

Before each run of a task the database is asked. In a rolling deploy a worker with the newest code
leads, since older code does not know all tasks. Known limits: a leader that was stopped during a
run may finish it when another worker leads already; a live leader whose run hangs keeps the lead.
"""

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.periodic import Run
from inboxd.store import leases
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_NAME = "leader"  # the row that migrations made


class Leadership:
    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._led = False

    async def leads(self) -> bool:
        """Whether this worker leads; without a leader, it becomes the leader."""
        context = self._context
        try:
            async with borrow(context.pool) as session:
                leads = await leases.hold(session, _NAME, context.me, from_older=True)
        except BaseException:
            self._show(leads=False)
            raise
        self._show(leads=leads)
        return leads

    def only(self, run: Run) -> Run:
        async def led() -> None:
            if await self.leads():
                await run()

        return led

    def _show(self, *, leads: bool) -> None:
        if leads is not self._led:
            _log.info(
                "this worker is the leader" if leads else "this worker is not the leader any more"
            )
        self._led = leads
        self._context.metrics.leader.set(leads)
        if not leads:
            self._context.metrics.hide_partitions()
