"""Wrong or jumping clocks: no worker dies, and no row runs early, twice, or never."""

import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from inboxd.embedded import Server, datadir
from tests.faults.storm import ROUGH, Crew, Storm, seeds
from tests.support import (
    Database,
    StartWorker,
    create_migrated,
    eventually,
    shared_folder,
    temporary_server,
)
from tests.support.clock import Clock
from tests.support.rows import ExactlyOnce, Hasty, emit, send
from tests.support.sampled import is_sampled
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

HOUR = 3600.0


# ------------------------------------------------------------------------- the database's clock


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The database's clock, which the test may change."""
    with shared_folder() as folder:
        yield Clock(folder)


@pytest.fixture
def restartable_server(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that uses `clock`."""
    spawn = datadir.spawn

    def spawn_with_clock(command: list[str], *rest: Any, **words: Any) -> Any:
        if command[0].endswith("/postgres"):
            command = [
                "/usr/bin/env",
                *(f"{k}={v}" for k, v in clock.environment.items()),
                *command,
            ]
        return spawn(command, *rest, **words)

    monkeypatch.setattr("inboxd.embedded.server.spawn", spawn_with_clock)
    with temporary_server() as server:
        yield server


@pytest.fixture
def restartable_database(restartable_server: Server) -> Database:
    """A migrated database on that server."""
    return create_migrated(restartable_server)


@pytest.mark.parametrize("seed", seeds())
async def test_jumps_of_the_databases_clock_lose_and_repeat_nothing(
    ledger: Database,
    restartable_database: Database,
    clock: Clock,
    start_worker: StartWorker,
    hasty: Hasty,
    seed: int,
) -> None:
    """Forward and back, by seconds, leases, hours, and days without partitions."""
    storm = Storm(ledger, seed)
    config = hasty(types=ROUGH["types"], maintenance={"interval": "1s"}, worker={"lease": "60s"})
    await Crew(start_worker, config, storm.chance).hire(2)
    jumps: list[float] = []

    async def jump() -> None:
        farthest = storm.chance.choice([5.0, 120.0, HOUR, 30 * 24 * HOUR])
        jumps.append(storm.chance.uniform(-farthest, farthest))
        before = time.time()
        clock.off(jumps[-1])
        now = await ledger.fetchval("select extract(epoch from clock_timestamp())::float8")
        assert before - 1 < now - jumps[-1] < time.time() + 1

    async with storm.load():
        await storm.strike(5, jump)
    await eventually(lambda: is_sampled(ledger))  # whatever the last jump was
    clock.off(max(0.0, *jumps))  # rows of the latest time are due now
    await storm.verify()
    await storm.no_crash()


# ------------------------------------------------------------------------- the workers' clocks


async def test_workers_whose_clocks_are_an_hour_off_start_rows_in_time(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    hasty: Hasty,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One an hour ahead, one an hour behind: the database's clock decides what is due."""
    for hours in (1, -1):
        with monkeypatch.context() as patch:
            for name, value in Clock(tmp_path, hours * HOUR).environment.items():
                patch.setenv(name, value)
            worker = await start_worker(hasty(worker={"poll_interval": "1h", "lease": "60s"}))
        said = datetime.fromisoformat(json.loads(worker.output().splitlines()[0])["timestamp"])
        off = (said - datetime.now(UTC)).total_seconds()
        assert off == pytest.approx(hours * HOUR, abs=60), "the worker's clock is right"
    events, commands = await emit(ledger, 50, sends=1), await send(ledger, 50, wait=0.05)
    for table in ("events", "commands"):
        async with ledger.connect() as producer, producer.transaction():
            insert = emit if table == "events" else send
            later = await insert(producer, 20)
            await producer.execute(
                f"update inboxd.{table} set run_at = now() + id % 3 * interval '1 s' + '1 s'"
                " where id = any($1)",
                later,
            )
            (events if table == "events" else commands).extend(later)
    (retried,) = await send(ledger, 1, "test.misbehave", how="retry later", seconds=1.5)
    await eventually(lambda: _is_dead(ledger, retried))
    await exactly_once("event", events)
    children = await ledger.fetch(
        "select id from inboxd.commands_history where origin_kind = 'event' union all"
        " select id from inboxd.commands where origin_kind = 'event'"
    )
    with safety():
        assert len(children) == 50
    await exactly_once("command", [*commands, *(row["id"] for row in children)])
    early = await ledger.fetch(
        "select id, started_at - run_at as waited from inboxd.commands_history"
        " where started_at < run_at union all"
        " select id, finished_at - run_at from inboxd.events_history where finished_at < run_at"
    )
    assert not early
    tried = await ledger.fetch(
        "select (e ->> 'at')::timestamptz as at from inboxd.commands c,"
        " jsonb_array_elements(errors) with ordinality as each(e, n) where c.id = $1 order by n",
        retried,
    )
    pauses = [(b["at"] - a["at"]).total_seconds() for a, b in itertools.pairwise(tried)]
    assert len(pauses) == 2
    assert all(pause >= 1.5 for pause in pauses)
    states = await ledger.fetch(
        "select state, crashes from inboxd.workers, lateral"
        " (select count(*) as crashes from inboxd.commands_history"
        " where crashes > 0) as c"
    )
    assert [tuple(row) for row in states] == [("running", 0)] * 2


async def _is_dead(database: Database, row: int) -> bool:
    found: bool = await database.fetchval(
        "select status = 'failed' from inboxd.commands where id = $1", row
    )
    return found
