"""Deaths behind a pooler in transaction mode: an event's crash is counted before it runs alone."""

from typing import Any

import asyncpg
import pytest

from tests.support import Database, StartWorker, eventually
from tests.support.rows import Hasty, emit

pytestmark = pytest.mark.anyio

POOLER: dict[str, dict[str, Any]] = {
    "database": {"transaction_pooler": True},
    "wakeups": {"mode": "off"},
    "worker": {"poll_interval": "200ms"},
}


async def _row(database: Database) -> asyncpg.Record:
    (row,) = await database.fetch("select status, crashes from inboxd.events")
    return row


async def test_an_event_that_kills_is_convicted(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    await emit(ledger, 1, "test.misbehave", how="kill")
    # The first death is in a page, and counts nothing; the others occur while it runs alone.
    for crashes in range(4):
        victim = await start_worker(hasty(**POOLER), ready=False)
        assert await victim.wait() == -9
        assert tuple(await _row(ledger)) == ("pending", crashes)
    last = await start_worker(hasty(**POOLER))

    async def is_dead() -> bool:
        return bool((await _row(ledger))["status"] == "failed")

    await eventually(is_dead)
    assert last.process.poll() is None
