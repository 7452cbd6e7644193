"""Events that run alone after a death, each with its crash counted beforehand (ADR 3)."""

import pytest

from tests.support import Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, Hasty, emit

pytestmark = pytest.mark.anyio


async def _in_a_page(database: Database) -> bool:
    found: bool = await database.fetchval(
        "select exists (select from pg_locks where relation = 'ledger'::regclass"
        " and mode = 'RowExclusiveLock' and pid <> pg_backend_pid())"
    )
    return found


async def _runs_alone(database: Database) -> bool:
    marked: bool = await database.fetchval("select crashes = 1 from inboxd.events")
    return marked and await _in_a_page(database)


async def test_an_end_in_the_middle_of_a_careful_event_is_no_crash(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """Three deploys whose drain is too short must not make a dead letter."""
    config = hasty(worker={"drain_timeout": "200ms"})
    victim = await start_worker(config)
    ids = await emit(ledger, 1, wait=0.9)
    await eventually(lambda: _in_a_page(ledger))
    victim.kill()
    for _ in range(3):
        worker = await start_worker(config)
        await eventually(lambda: _runs_alone(ledger))
        assert await worker.stop() == 0
        (row,) = await ledger.fetch(
            "select status, crashes, run_at <= now() as due from inboxd.events"
        )
        assert tuple(row) == ("pending", 0, True)
    await start_worker(config)
    await exactly_once("event", ids)
