"""A rate per ordering key: a command starts, the next one waits in its place, other keys go on."""

import pytest

from tests.daemon.test_ordering_keys import ended, held, steps, trail
from tests.support import Config, Database, StartWorker, eventually
from tests.support.locks import lock_awaited
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# Without the limit all would be done in a second; with it the next one needs an hour.
HOURLY: Config = {"queues": {"lines": {"key_rate": "1/h"}}}


@pytest.fixture
async def lines(database: Database) -> Database:
    """A database with the trail of the handlers."""
    await database.execute("create table trail (position bigserial, key text, n int)")
    return database


async def _first_command_waits(database: Database) -> bool:
    """Of a key with more commands, the first is due in an hour, and the others stand behind it."""
    rows = await database.fetch(
        "select ordering_key as key, payload ->> 'n' as n, status, attempts, errors,"
        " run_at > now() + interval '50 min' as later from inboxd.commands order by id"
    )
    first = [row for row in rows if row["later"]]
    return [(row["key"], row["n"], row["status"], row["attempts"]) for row in first] == [
        ("a", "2", "waiting", 0)
    ] and not any(row["errors"] for row in rows)


async def test_one_command_of_a_key_starts_and_other_keys_go_on(
    lines: Database, start_worker: StartWorker
) -> None:
    workers = [await start_worker(HOURLY), await start_worker(HOURLY)]
    await steps(lines, [{"key": "a", "n": n} for n in (1, 2, 3)] + [{"key": "b", "n": 1}])
    await ended(lines, 2)
    await eventually(lambda: _first_command_waits(lines))
    with safety():
        assert await trail(lines) == {"a": [1], "b": [1]}
    held_back = [
        await each.metric('inboxd_queue_held_back_total{queue="lines",reason="key rate"}')
        for each in workers
    ]
    assert sum(held_back) >= 1

    # Make an hour pass, as far as the workers can tell.
    await lines.execute("update inboxd.key_rates set next_at = now()")
    await lines.execute("update inboxd.commands set run_at = now() where run_at > now()")
    await ended(lines, 3)
    await eventually(lambda: _waits(lines, "3"))
    with safety():
        assert await trail(lines) == {"a": [1, 2], "b": [1]}, "out of order"


async def _waits(database: Database, n: str) -> bool:
    later = "select payload ->> 'n' from inboxd.commands where run_at > now() + interval '50 min'"
    return bool(await database.fetchval(later) == n)


async def test_command_that_got_no_connection_gives_its_turn_back(
    lines: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker(
        {
            **HOURLY,
            "types": {"test.step": {"timeout": "1s"}},
            "database": {
                "handler_pool_size": 1,
                "lock_timeout": "10m",
                "statement_timeout": "10m",
            },
        }
    )
    async with held(lines):
        await lines.execute(
            "insert into inboxd.commands (type, payload) values ('test.patient',"
            """ '{"sql": "insert into trail (key, n) values (''holder'', 1)"}')"""
        )
        await lock_awaited(lines, query="%holder%")
        await steps(lines, [{"key": "a", "n": 1, "touch": True}])
        await worker.logged("it got no connection")
    await ended(lines, 2)
    assert await trail(lines) == {"holder": [1], "a": [1]}


async def test_command_that_cannot_begin_takes_no_turn(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker(HOURLY)
    await steps(lines, [{"key": "a", "n": "not a number"}])
    dead = "select count(*) from inboxd.commands where status = 'failed'"

    async def is_dead() -> bool:
        return bool(await lines.fetchval(dead) == 1)

    await eventually(is_dead)
    assert await lines.fetchval("select count(*) from inboxd.key_rates") == 0


async def test_a_queue_without_a_key_rate_writes_no_turns(
    lines: Database, start_worker: StartWorker
) -> None:
    await start_worker({"queues": {"others": {"key_rate": "1/h"}}})
    await steps(lines, [{"key": "a", "n": n} for n in (1, 2, 3)])
    await ended(lines, 3)
    assert await trail(lines) == {"a": [1, 2, 3]}
    assert await lines.fetchval("select count(*) from inboxd.key_rates") == 0
