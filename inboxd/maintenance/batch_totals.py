"""Adds up the changes of batches, so that totals are read from few rows.

Promises that each change counts once, even if a run is killed; two leaders at the same time add up
different changes. Known limit: a run ends after some seconds, and the next one continues. *See:*
`inboxd.store.batch_totals`.
"""

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import batch_totals
from inboxd.store.pools import borrow, transact

# Changes per transaction, and seconds per run.
_PAGE = 2_000
_LONGEST_SECONDS = 10.0


async def add_up_batches(context: MaintenanceContext) -> None:
    """Add up all changes of batches, and remove the totals that are 0."""
    until = anyio.current_time() + _LONGEST_SECONDS
    more = True
    while more and anyio.current_time() < until:
        async with transact(context.pool) as session:
            more = await batch_totals.add_up(session, _PAGE) == _PAGE
    async with borrow(context.pool) as session:
        await batch_totals.forget(session, _PAGE)
