"""Runs bulk actions one transaction at a time, as a worker does: `await step(database, 3)`."""

from collections.abc import Sequence
from functools import partial

import anyio

from inboxd.operations.bulk_runs import work_off
from inboxd.store.pools import transact
from tests.support.databases import Database
from tests.support.rows import daemon_pool

_DUE = (
    "UPDATE inboxd.actions SET next_at = clock_timestamp() "
    "WHERE status IN ('scheduled', 'canary', 'running')"
)


async def ordered(
    database: Database,
    *,
    actor: str = "ana",
    reason: str | None = None,
    tenants: Sequence[str] | None = None,
) -> int:
    """Insert a bulk action that is scheduled for tomorrow; return its id."""
    id_: int = await database.fetchval(
        "insert into inboxd.actions (kind, verb, selection, tenants, actor, reason, audit_id,"
        " status, starts_at, next_at, above, first_id, last_id, counted, whole)"
        """ values ('command', 'replay', '{"statuses": ["failed"], "type": "a.b"}', $1, $2, $3,"""
        " 0, 'scheduled', now() + interval '1 day', now() + interval '1 day', 0, 1, 9, 9, true)"
        " returning id",
        *(tenants, actor, reason),
    )
    return id_


async def step(database: Database, times: int = 1) -> None:
    """Run this many transactions, each with all unfinished actions made due before."""
    async with daemon_pool(database, 1) as pool:
        for _ in range(times):
            await database.execute(_DUE)
            await work_off(partial(transact, pool))


def steps(database: Database, times: int = 1) -> None:
    """Run `step` from a synchronous test."""
    anyio.run(step, database, times)
