"""Samples: all workers show the same one, a scrape counts no rows, an old sample shows its age."""

from functools import partial

import pytest

from inboxd.operations.overview import overview
from inboxd.settings import Settings
from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.rows import create_ledger, daemon_session, emit, send

pytestmark = pytest.mark.anyio

QUICK: Config = {"maintenance": {"samples": "400ms"}}
AGE = "inboxd_sample_age_seconds"
WAITING = 'inboxd_command_backlog_rows{priority="0",queue="q",state="pending",type="test.ledger"}'
LATE = WAITING.replace("rows", "age_seconds")


async def _pause(database: Database) -> None:
    await database.execute(
        "insert into inboxd.controls (kind, name, actor)"
        " values ('queue', 'q', 'ada'), ('topic', 'default', 'ada')"
    )


async def _shows(worker: Worker, series: str, value: float) -> bool:
    return await worker.metric(series) == value


async def _sample(worker: Worker) -> list[str]:
    """The series of the sample that a worker shows, without the age."""
    page = (await worker.get("/metrics"))[1]
    names = ("inboxd_event_backlog", "inboxd_command_backlog", "inboxd_arrivals_total")
    return [line for line in page.splitlines() if line.startswith(names)]


async def test_all_workers_show_one_sample_and_a_scrape_counts_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    await _pause(database)
    await send(database, 7, queue="q")
    await emit(database, 3)
    one, two = await start_worker(QUICK), await start_worker(QUICK)
    for worker in (one, two):
        await eventually(partial(_shows, worker, WAITING, 7))
        assert f"\n{LATE} " not in (await worker.get("/metrics"))[1], "a paused lane has no age"
    async with database.connect() as other, other.transaction():
        # No sample is taken meanwhile, and a gauge that read these tables would wait.
        await other.execute("lock table inboxd.events, inboxd.commands in access exclusive mode")
        shown = await _sample(one)
        assert [*map(len, (shown, await _sample(two)))] == [len(shown)] * 2
        first = await one.metric(AGE)
        for _ in range(25):
            for worker in (one, two):
                assert (await worker.get("/metrics"))[0] == 200
        assert await one.metric(AGE) > first
        await database.execute(
            "update inboxd.newest_sample set at = clock_timestamp(),"
            " counts = jsonb_set(counts, '{held_topics}', '42')"
        )
        for worker in (one, two):
            await eventually(partial(_shows, worker, "inboxd_held_topics", 42))

    async def same() -> bool:
        return await _sample(one) == await _sample(two)

    await eventually(same)


async def test_an_old_sample_stays_shown_and_a_status_counts_itself(
    database: Database, start_worker: StartWorker
) -> None:
    await _pause(database)
    await send(database, 7, queue="q")
    worker = await start_worker(QUICK)
    await eventually(partial(_shows, worker, WAITING, 7))
    settings = Settings.model_validate({**QUICK, "database": {"dsn": database.dsn}})
    await database.execute(
        "alter table inboxd.samples rename to gone"
    )  # no sample can be written now

    async def old() -> bool:
        return await worker.metric(AGE) > 3 * 0.4

    await eventually(old)
    await send(database, 2, queue="q")
    assert await worker.metric(WAITING) == 7
    async with daemon_session(database) as session:
        found = await overview(session, 5, settings, [], [])
        assert found["sample"]["counted_by"] == "status"
        assert found["sample"]["newest_age"] > 3 * 0.4
        assert [lane["pending"] for lane in found["lanes"]] == [9]
        await database.execute("alter table inboxd.gone rename to samples")
        await eventually(partial(_shows, worker, WAITING, 9))
        assert await worker.metric(AGE) < 3 * 0.4
        found = await overview(session, 5, settings, [], [])
    assert found["sample"]["counted_by"] == "leader"
    assert [lane["pending"] for lane in found["lanes"]] == [9]


async def test_running_events_and_commands_are_counted_separately(
    database: Database, start_worker: StartWorker
) -> None:
    await start_worker({**QUICK, "worker": {"heartbeat_interval": "200ms"}})
    await create_ledger(database)
    await emit(database, 1, wait=30)
    await send(database, 2, "test.wait", "slow", wait=30)

    async def told() -> bool:
        rows = await database.fetch(
            "select in_flight, events_in_flight from inboxd.workers where state = 'running'"
        )
        totals = await database.fetch(
            "select events_running, commands_running from inboxd.samples order by at desc limit 1"
        )
        return [*map(tuple, rows)] == [(3, 1)] and [*map(tuple, totals)] == [(1, 2)]

    await eventually(told)
