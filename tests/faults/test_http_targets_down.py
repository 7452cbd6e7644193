"""A target that is called over HTTP is down while workers and the server die."""

import json
from collections.abc import AsyncIterator

import anyio
import pytest

from inboxd import operations
from inboxd.embedded import Server
from tests.support import Config, Database, StartWorker, eventually
from tests.support.http_target import Target
from tests.support.rows import Hasty, daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_SPENT = "select coalesce(sum(attempts), 0)::int from inboxd.commands"


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """A target that answers 200."""
    async with Target() as served:
        yield served


def settings(hasty: Hasty, target: Target) -> Config:
    """Three failures open the breaker; it stays open until the test closes it."""
    bank = {"url": target.url(""), "allow": ["127.0.0.0/8"], "concurrency": 4}
    down = {"consecutive_failures": 3, "first_break": "1h", "longest_break": "1h"}
    patient = {"http.request": {"retry": {"kind": "fixed", "base": "100ms", "attempts": 100}}}
    return hasty(targets={"bank": bank}, breakers={"http.bank": down}, types=patient)


async def pay(database: Database, numbers: range) -> None:
    """Send one payment for each number."""
    for number in numbers:
        payload = {"target": "bank", "path": "/ok", "json": {"n": number}}
        await database.fetch(
            "select inboxd.send_command('http.request', $1::jsonb, queue => 'http.bank')",
            json.dumps(payload),
        )


async def until_left_alone(database: Database) -> None:
    """Wait until the breaker is open and no command runs."""

    async def is_open() -> bool:
        found = await database.fetchval(
            "select exists (select from inboxd.breakers where name = 'http.bank'"
            " and state = 'open')"
            " and not exists (select from inboxd.commands where status = 'running')"
        )
        return bool(found)

    await eventually(is_open)


@pytest.mark.long
async def test_a_target_down_while_workers_and_the_server_die_loses_nothing(
    restartable_server: Server,
    restartable_database: Database,
    start_worker: StartWorker,
    target: Target,
    hasty: Hasty,
) -> None:
    """While the breaker is open no attempt is spent; then each payment is made once."""
    database, config = restartable_database, settings(hasty, target)
    workers = [await start_worker(config) for _ in range(2)]
    await target.stop()
    await pay(database, range(5))
    await until_left_alone(database)
    spent = await database.fetchval(_SPENT)
    await pay(database, range(5, 40))
    workers[0].kill()
    workers.append(await start_worker(config))
    await anyio.to_thread.run_sync(restartable_server.restart, "immediate")
    assert await workers[1].stop() == 0
    workers.append(await start_worker(config))
    await pay(database, range(40, 45))
    # A later command of another queue ends: the workers work, and have seen the waiting ones.
    await database.fetch("select inboxd.send_command('test.noop', '{}')")

    async def noop_is_done() -> bool:
        done = "select exists (select from inboxd.commands_history where type = 'test.noop')"
        return bool(await database.fetchval(done))

    await eventually(noop_is_done, within=60)
    await until_left_alone(database)
    assert await database.fetchval(_SPENT) == spent
    with safety():
        assert await database.fetchval("select count(*) from inboxd.commands") == 45
    # It is up again. Meanwhile one worker dies, and then the server.
    await target.start()
    target.plan.extend(["/slow?after=0.1"] * 45)
    async with daemon_session(database) as session:
        await operations.force_breaker(session, "http.bank", "closed", actor="ada")
    await target.until(lambda: len(target.seen) >= 10, within=60)
    workers[2].kill()
    await anyio.to_thread.run_sync(restartable_server.restart, "immediate")

    async def all_are_done() -> bool:
        return not await database.fetchval("select count(*) from inboxd.commands")

    await eventually(all_are_done, within=60)
    rows = await database.fetch(
        "select command_id::text as key, (payload->'json'->>'n')::int as n"
        " from inboxd.commands_history where type = 'http.request' and status = 'succeeded'"
    )
    with safety():
        assert sorted(row["n"] for row in rows) == list(range(45))
    # A target that acts once per key sees each payment under one key, the row's.
    asked = {(seen.headers["idempotency-key"], json.loads(seen.body)["n"]) for seen in target.seen}
    with safety():
        assert asked == {(row["key"], row["n"]) for row in rows}
