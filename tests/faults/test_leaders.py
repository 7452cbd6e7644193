"""A frozen leader: another worker leads when its lease ends, and the frozen one then does not."""

import time
from datetime import timedelta

import pytest

from tests.support import Config, Database, StartWorker, Worker, eventually
from tests.support.rows import daemon_session, join
from tests.support.sampled import is_sampled
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

LEASE = 2.0  # seconds
BEAT = 0.5


def _config(lease: float) -> Config:
    """Settings of a worker; lease: seconds of silence after which it declares others dead."""
    return {
        "worker": {"lease": f"{int(lease)}s", "heartbeat_interval": f"{int(BEAT * 1000)}ms"},
        "maintenance": {"interval": "200ms"},
    }


async def test_a_frozen_leader_is_replaced_and_changes_nothing_when_it_wakes(
    database: Database, start_worker: StartWorker
) -> None:
    # With this lease it declares no other worker dead, though the second one is frozen later.
    first = await start_worker(_config(lease=60))
    await eventually(lambda: _leads(first))
    second = await start_worker(_config(lease=LEASE))
    assert not await _leads(second)
    await _beats(database, first)
    first.pause()
    stopped_at = time.monotonic()
    await eventually(lambda: _leads(second))
    assert time.monotonic() - stopped_at > LEASE - BEAT, (
        "the second worker led before the lease was over"
    )

    second.pause()  # so only the worker that wakes could run a leader's task
    async with daemon_session(database) as session:
        forgotten = await join(session, "long gone")
        await session.connection.execute(
            "update inboxd.workers set state = 'stopped', ended_at = now() - interval '8 days'"
            " where id = $1",
            forgotten,
        )
        is_there = "select exists (select from inboxd.workers where id = $1)"
        first.resume()
        await first.logged("this worker was declared dead")
        await eventually(lambda: _has_beaten(database, first))
        with safety():
            assert await session.connection.fetchval(is_there, forgotten)
        assert not await _leads(first)
        second.resume()
        await eventually(lambda: _is_gone(database, is_there, forgotten))
    assert await _leads(second)
    assert not await _leads(first)
    await eventually(lambda: _is_sampled_again(database))
    # Whichever worker led, or believed so: samples keep their interval.
    gaps = "select at - lag(at) over (order by at) as gap from inboxd.samples"
    least = await database.fetchval(f"select min(gap) from ({gaps}) g")
    with safety():
        assert least >= timedelta(milliseconds=100)


async def _is_sampled_again(database: Database) -> bool:
    taken = await database.fetchval("select count(*) from inboxd.samples")
    return taken > 2 and await is_sampled(database)


async def _leads(worker: Worker) -> bool:
    return await worker.metric("inboxd_leader") == 1


async def _beats(database: Database, worker: Worker) -> None:
    """Wait until its heartbeat has just been written."""
    beat = "select heartbeat from inboxd.workers where pid = $1"
    before = await database.fetchval(beat, worker.process.pid)

    async def has() -> bool:
        return bool(await database.fetchval(beat, worker.process.pid) > before)

    await eventually(has)


async def _has_beaten(database: Database, worker: Worker) -> bool:
    """Whether it lives again, for longer than its tasks wait for their next runs."""
    beaten = "select max(heartbeat) filter (where state = 'running') from inboxd.workers"
    beats: int | None = await database.fetchval(f"{beaten} where pid = $1", worker.process.pid)
    return beats is not None and beats >= 3


async def _is_gone(database: Database, is_there: str, worker: object) -> bool:
    return not await database.fetchval(is_there, worker)
