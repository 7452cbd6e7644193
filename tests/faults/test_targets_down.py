"""A target goes down under two workers: both stop, one probes it, and no command is lost.

The target's own log has each call, its time and its caller.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest

from inboxd.embedded import Server
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import Hasty, send
from tests.support.target import RemoteTarget, listening
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# No poll helps: only a notification can be in time.
NO_POLL: Config = {"worker": {"poll_interval": "1h"}, "commands": {"concurrency": 4}}
# Without rules a worker never opens the breaker itself; the other one opens it and notifies.
BLIND = {"consecutive_failures": 0, "failure_ratio": 0}
LONG = {"first_break": "1h", "longest_break": "1h"}


@pytest.fixture
async def target() -> AsyncIterator[RemoteTarget]:
    async with listening() as found:
        yield found


async def opened_at(database: Database) -> float | None:
    """When the breaker was opened, in seconds since the epoch, or None."""
    found: float | None = await database.fetchval(
        "select extract(epoch from changed_at)::float8 from inboxd.breakers"
        " where name = 'remote' and state = 'open'"
    )
    return found


async def opening(database: Database) -> float:
    """Wait until the breaker is open; return since when."""
    found = await eventually(lambda: opened_at(database))
    assert found is not None
    return found


async def settled(database: Database, count: int, type_: str) -> None:
    """Wait until exactly this many commands of a type have succeeded."""

    async def are() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.commands_history where status = 'succeeded' and type = $1",
            type_,
        )
        return bool(found == count)

    await eventually(are, within=60)


def called_by(target: RemoteTarget, pids: set[int]) -> Callable[[], Awaitable[bool]]:
    """Whether all these processes have called the target since it went down."""

    async def have() -> bool:
        return pids <= {call.pid for call in target.calls if not call.was_up}

    return have


async def test_one_worker_opens_the_breaker_and_the_other_stops(
    database: Database, start_worker: StartWorker, target: RemoteTarget
) -> None:
    seeing = await start_worker({**NO_POLL, "breakers": {"remote": LONG}})
    blind = await start_worker({**NO_POLL, "breakers": {"remote": {**LONG, **BLIND}}})
    pids = {seeing.process.pid, blind.process.pid}
    seeing.pause()  # until the other one has failed; without rules it does not open the breaker
    target.up = False
    await target.send(database, 200)
    await eventually(called_by(target, {blind.process.pid}))
    assert await opened_at(database) is None
    before = len(target.of(blind.process.pid))
    seeing.resume()
    await opening(database)

    async def at_rest() -> bool:
        running = "select not exists (select from inboxd.commands where status = 'running')"
        return bool(await database.fetchval(running))

    await blind.logged("breaker changed")
    known = len(target.calls)
    await eventually(at_rest)
    assert len(target.calls) - known <= 2 * 4, (
        "only calls that had begun: leased commands are released"
    )
    assert len(target.of(blind.process.pid)) >= before
    assert pids == {call.pid for call in target.calls}
    # The last claimed commands have been handled; neither waiting nor new commands are claimed.
    calls, fences = len(target.calls), await database.fetchval(FENCES)
    await target.send(database, 50)
    await send(database, 20, "test.noop")
    await settled(database, 20, "test.noop")
    assert (len(target.calls), await database.fetchval(FENCES)) == (calls, fences)
    spent = await database.fetchval("select sum(attempts) from inboxd.commands")
    assert spent == calls


FENCES = "select sum(fence) from inboxd.commands where type = 'test.remote'"


@pytest.mark.long
async def test_one_call_at_a_time_reaches_a_target_that_is_down(
    database: Database, start_worker: StartWorker, target: RemoteTarget
) -> None:
    """Over many rounds of two workers, which take turns as it happens."""
    quick = {"first_break": "100ms", "longest_break": "100ms"}
    for _ in range(2):
        await start_worker({**NO_POLL, "breakers": {"remote": quick}})
    target.up = False
    await target.send(database, 100)
    opened = await opening(database)
    target.takes = 0.2  # so that a second call would overlap
    await database.fetchval("select pg_sleep(1)")  # calls that ran then have ended

    async def many() -> bool:
        return len([call for call in target.calls if call.at > opened + 1]) >= 15

    await eventually(many, within=60)
    tried = [call for call in target.calls if call.at > opened + 1]
    assert all(call.alone for call in tried)
    target.up, target.takes = True, 0.01
    await settled(database, 100, "test.remote")
    assert set(target.ledger.values()) == {1}
    spent = "select sum(attempts) from inboxd.commands_history"
    assert await database.fetchval(spent) == len(target.calls)


@pytest.mark.long
async def test_a_target_that_is_down_while_workers_and_the_server_die_loses_nothing(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    target: RemoteTarget,
    hasty: Hasty,
) -> None:
    """While the breaker is open no attempt is spent; then all commands take effect once."""
    database, config = restartable_database, hasty(commands={"concurrency": 4})
    workers = [await start_worker(config) for _ in range(2)]
    target.up = False
    await target.send(database, 3)
    await opening(database)
    await target.send(database, 60)
    workers[0].kill()
    workers.append(await start_worker(config))
    await anyio.to_thread.run_sync(restartable_server.restart, "immediate")
    assert await workers[1].stop() == 0
    workers.append(await start_worker(config))
    await send(database, 20, "test.noop")
    await settled(database, 20, "test.noop")
    rows = await database.fetch("select status, attempts from inboxd.commands")
    with safety():
        assert len(rows) == 63
    assert {row["status"] for row in rows} <= {"pending", "running"}
    assert sum(row["attempts"] for row in rows) <= len(target.calls)
    assert sum(not row["attempts"] for row in rows) >= 40, "most commands were not tried"
    # It is up again; in the middle of the work one worker dies, and then the server.
    target.up, target.takes = True, 0.2

    async def some_are_done() -> bool:
        return len(target.ledger) >= 10

    await eventually(some_are_done, within=60)
    workers[2].kill()
    await anyio.to_thread.run_sync(restartable_server.restart, "immediate")
    await settled(database, 63, "test.remote")
    keys = await database.fetch(
        "select command_id::text as key from inboxd.commands_history where type = 'test.remote'"
    )
    with safety():
        assert len(target.ledger) == len(keys) == 63
        assert set(target.ledger.values()) == {1}
    assert await database.fetchval("select count(*) from inboxd.commands") == 0
