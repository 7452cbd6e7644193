"""Works off the bulk actions that operators have ordered.

A draining worker stops between two transactions of an action, so that another can continue it.
Known limit: an action starts up to a second after its time; long runs pause for a second.
"""

from datetime import timedelta
from functools import partial

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.operations.bulk_runs import until_next, work_off
from inboxd.store.pools import transact

# Time limit of a run.
_LONGEST_SECONDS = 10.0
# Shorter waits are spent in this run.
_SOON = timedelta(seconds=1)


async def work_off_actions(context: MaintenanceContext) -> None:
    begin = partial(transact, context.pool)
    until = anyio.current_time() + _LONGEST_SECONDS
    while anyio.current_time() < until:
        if await work_off(begin):
            continue
        wait = await until_next(begin)
        # Another worker has the due actions that were not continued here.
        if wait is None or not timedelta(0) < wait < _SOON:
            return
        await anyio.sleep(wait.total_seconds())
