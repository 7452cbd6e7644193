"""Chunks under deaths, late commits and several workers."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from inboxd_testplugin.chunked import TABLES
from tests.faults.storm import supervised
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.plugins import found, install
from tests.support.rows import Hasty
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

OTHER = """
from inboxd import Handlers
handlers = Handlers("other")
"""
BERLIN = ZoneInfo("Europe/Berlin")
# A chunk whose worker died is retried after these two times.
KEPT: dict[str, dict[str, Any]] = {
    "database": {"idle_in_transaction_timeout": "1s"},
    "events": {"chunk_timeout": "1s", "timeout": "500ms"},
}


@pytest.fixture
async def chunked(ledger: Database) -> Database:
    """The test's database, with the table of the handlers of chunks."""
    await ledger.execute(TABLES)
    return ledger


async def declared(database: Database) -> None:
    """Wait until a worker has declared the topics."""
    await eventually(
        lambda: database.fetchval("select count(*) = 1 from inboxd.topics where name = 'counted'")
    )


async def emit(
    where: "Database | asyncpg.Connection[Any]", topic: str, payloads: Sequence[dict[str, Any]]
) -> list[int]:
    """Insert events of a topic, in this order; return their ids."""
    rows = await where.fetch(
        "insert into inboxd.events (topic, mode, type, payload) "
        "select $1, 'batch', 'chunked.' || $1, p::jsonb from unnest($2::text[]) as p returning id",
        topic,
        [json.dumps(each) for each in payloads],
    )
    return [row["id"] for row in rows]


async def handled(database: Database) -> list[int]:
    """The events of all committed chunks, in the order of the chunks."""
    rows = await database.fetch("select unnest(ids) as id from chunks order by chunks.id")
    return [row["id"] for row in rows]


async def visited(worker: Worker) -> None:
    """Wait until a whole visit of the one bucket with events has taken place.

    Each visit begins with a read of the horizon: the third read follows a whole visit.
    """
    looks = await worker.metric("inboxd_horizon_duration_seconds_count")

    async def thrice() -> bool:
        return await worker.metric("inboxd_horizon_duration_seconds_count") >= looks + 3

    await eventually(thrice)


async def settled(database: Database, ids: Sequence[int], within: float = 60) -> None:
    """Wait until all these rows have succeeded."""

    async def have() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.events_history where id = any($1)", list(ids)
        )
        return bool(found == len(ids))

    await eventually(have, within)


async def test_a_chunk_whose_worker_is_killed_runs_again(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    victim = await start_worker(hasty(events={"chunk_timeout": "20s"}))
    await declared(chunked)
    ids = await emit(chunked, "counted", [{"wait": 0.3}] * 5)
    await eventually(
        lambda: chunked.fetchval(
            "select exists (select from pg_locks where locktype = 'advisory' and mode = "
            "'ExclusiveLock' and objid < 64)"
        )
    )
    victim.kill()
    assert await handled(chunked) == []
    await start_worker(hasty(events={"chunk_timeout": "20s"}))
    await settled(chunked, ids)
    with safety():
        assert await handled(chunked) == ids


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("topic", ["counted", "whole"])
async def test_an_event_that_kills_is_convicted_alone(
    chunked: Database, start_worker: StartWorker, hasty: Hasty, topic: str
) -> None:
    async with supervised(start_worker, hasty(**KEPT)):
        await declared(chunked)
        ids = await emit(chunked, topic, [{"kills": n == 2} for n in range(5)])
        guilty = ids[2:3] if topic == "counted" else ids[:4]
        convicted = await eventually(
            lambda: chunked.fetch(
                "select id, crashes from inboxd.events where status = 'failed' order by id"
            ),
            within=150,
        )
        if topic == "counted":
            await settled(chunked, [id_ for id_ in ids if id_ not in guilty])
        assert [row["id"] for row in convicted] == guilty
        assert convicted[0]["crashes"] == 3


async def test_two_workers_never_share_a_chunk(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    for _ in range(2):
        await start_worker(hasty())
    await declared(chunked)
    ids = []
    for n in range(40):
        ids += await emit(chunked, "counted", [{"key": f"k{(n + m) % 7}"} for m in range(35)])
    await settled(chunked, ids)
    found = await chunked.fetch("select key, ids, size from chunks order by id")
    with safety():
        assert sorted(await handled(chunked)) == sorted(ids)
    assert {row["size"] for row in found} == {5}
    for key in {row["key"] for row in found}:
        own = [id_ for row in found if row["key"] == key for id_ in row["ids"]]
        with safety():
            assert own == sorted(own)


@pytest.mark.usefixtures("within_an_hour")
async def test_a_chunk_of_a_day_waits_for_late_commits(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """An event written before midnight, but committed after it, belongs to its day of writing."""
    worker = await start_worker(hasty())
    await declared(chunked)
    early = await emit(chunked, "daily", [{}])
    await eventually(
        lambda: chunked.fetchval("select position from inboxd.events where id = $1", early[0])
    )
    producer = await asyncpg.connect(chunked.dsn)
    try:
        open_ = producer.transaction()
        await open_.start()
        late = await emit(producer, "daily", [{}])
        # Backdate both to yesterday, without the triggers that forbid it.
        yesterday = datetime.now(BERLIN).replace(hour=0, minute=0, second=0) - timedelta(hours=3)
        backdate = (
            "set local session_replication_role = replica; update inboxd.events set "
            f"created_at = '{yesterday}', run_at = now() where id = "
        )
        await producer.execute(f"{backdate}{late[0]}")
        await chunked.execute(f"begin; {backdate}{early[0]}; commit")
        await chunked.execute("notify inboxd_events")
        await visited(worker)
        assert await handled(chunked) == []
        await open_.commit()
    finally:
        await producer.close()
    await settled(chunked, [*early, *late])
    (found,) = await chunked.fetch("select ids from chunks")
    with safety():
        assert found["ids"] == [*early, *late]


async def test_a_cut_connection_spends_no_attempt_of_a_chunk(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    await start_worker(hasty(events={"chunk_timeout": "20s"}))
    await declared(chunked)
    ids = await emit(chunked, "counted", [{"wait": 0.2}] * 5)
    await eventually(
        lambda: chunked.fetchval(
            "select count(pg_terminate_backend(pid)) > 0 from pg_locks where locktype = 'advisory'"
            " and mode = 'ExclusiveLock' and objid < 64"
        )
    )
    await settled(chunked, ids)
    with safety():
        assert await handled(chunked) == ids
    rows = await chunked.fetch("select distinct attempts, crashes from inboxd.events_history")
    assert [tuple(row) for row in rows] == [(1, 0)]


async def test_a_draining_worker_lets_a_chunk_end(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    worker = await start_worker(hasty(events={"chunk_timeout": "20s"}))
    await declared(chunked)
    await chunked.execute("insert into ledger values ('told')")
    ids = await emit(chunked, "counted", [{"deferred": True}, *[{"wait": 0.2}] * 4])
    # The handler has asked the ledger for the first event, and handles the next one.
    await eventually(
        lambda: chunked.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database()"
            " and state = 'idle in transaction' and query like '%from ledger%')"
        )
    )
    assert await worker.stop() == 0
    assert await handled(chunked) == ids


async def test_a_chunk_waits_for_the_workers_of_its_topic(
    chunked: Database, start_worker: StartWorker, hasty: Hasty, tmp_path: Path
) -> None:
    """Meanwhile there is another worker; when they return, the chunk is whole and in order."""
    worker = await start_worker(hasty())
    await declared(chunked)
    ids = await emit(chunked, "counted", [{}, {}, {}])
    assert await worker.stop() == 0
    short = {"unhandled_grace": "300ms", "plugins": ["other"]}
    with found(install(tmp_path / "other", "other", OTHER)):
        dead = {"events": {"unhandled": "dead"}, "maintenance": {"interval": "300ms"}}
        other = await start_worker(hasty(worker=short, **dead))
    await chunked.execute(
        "insert into inboxd.topics (name, mode, source) values ('o', 'batch', 't')"
    )
    (unhandled,) = await emit(chunked, "o", [{}])
    # This event is given up, so the task has seen the others too, long after their grace.
    given_up = "select exists (select from inboxd.events where id = $1 and status = 'failed')"
    await eventually(lambda: chunked.fetchval(given_up, unhandled))
    assert await other.stop() == 0
    await start_worker(hasty())
    ids += await emit(chunked, "counted", [{}, {}])
    await settled(chunked, ids)
    with safety():
        assert await chunked.fetchval("select ids from chunks") == ids


async def test_unhandled_chunks_are_kept_or_dead_letters(
    chunked: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    await chunked.execute(
        "insert into inboxd.topics (name, mode, source) values ('o', 'batch', 't')"
    )
    ids = await emit(chunked, "o", [{}, {}])
    settings = {"worker": {"unhandled_grace": "1s"}, "maintenance": {"interval": "1s"}}
    worker = await start_worker(hasty(**settings))

    async def have_status(status: str) -> bool:
        rows = await chunked.fetch("select id from inboxd.events where status = $1", status)
        return sorted(row["id"] for row in rows) == ids

    await eventually(lambda: have_status("pending"))
    await worker.logged("no living worker handles these events: they are kept")
    assert await worker.stop() == 0
    await start_worker(hasty(**settings, events={"unhandled": "dead"}))
    await eventually(lambda: have_status("failed"))
    errors = await chunked.fetchval("select errors from inboxd.events limit 1")
    assert "no live worker handles event type 'chunked.o' in topic 'o'" in errors
