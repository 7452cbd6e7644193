"""Adds up the changes of batches, each once, so that totals are read from few rows."""

import anyio

from inboxd.maintenance.context import MaintenanceContext
from inboxd.store import batch_totals
from inboxd.store.pools import borrow, transact

# Changes per transaction, and seconds per run.
_PAGE = 2_000
_LONGEST_SECONDS = 10.0


async def add_up_batches(context: MaintenanceContext) -> None:
    until = anyio.current_time() + _LONGEST_SECONDS
    more = True
    while more and anyio.current_time() < until:
        async with transact(context.pool) as session:
            more = await batch_totals.add_up(session, _PAGE) == _PAGE
    async with borrow(context.pool) as session:
        await batch_totals.forget(session, _PAGE)
