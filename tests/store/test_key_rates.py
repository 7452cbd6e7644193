"""Starts of ordering keys keep the distance of their rate, over all workers."""

import asyncio

import pytest

from inboxd.store import key_rates
from inboxd.store.key_rates import Start
from tests.support import Database
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

HOUR = 3600.0


async def _start(database: Database, key: str = "acme", seconds: float = HOUR) -> Start:
    async with daemon_session(database) as session:
        return await key_rates.take(session, "crm", key, seconds)


async def _take(database: Database, key: str = "acme", seconds: float = HOUR) -> float:
    return (await _start(database, key, seconds)).wait


async def _give_back(database: Database, start: Start) -> None:
    assert start.next_at is not None
    async with daemon_session(database) as session:
        await key_rates.give_back(session, "crm", "acme", start.next_at)


async def test_one_of_many_concurrent_commands_starts(database: Database) -> None:
    waits = await asyncio.gather(*(_take(database) for _ in range(5)))
    with safety():
        assert min(waits) == 0
        assert all(HOUR - 60 < wait <= HOUR for wait in sorted(waits)[1:])
    assert await _take(database, "other") == 0, "each key has its own rate"


async def test_key_starts_again_at_its_time(database: Database) -> None:
    assert await _take(database) == 0
    await database.execute("update inboxd.key_rates set next_at = now() + interval '5 min'")
    assert 200 < await _take(database) <= 300
    await database.execute("update inboxd.key_rates set next_at = now()")
    assert await _take(database) == 0
    assert await _take(database) > 0, "the second start counts"


async def test_start_after_a_clock_change_or_a_raised_rate_is_not_delayed(
    database: Database,
) -> None:
    assert await _take(database) == 0
    assert await _take(database, seconds=10.0) == 0, "the stored start was an hour away"
    assert 0 < await _take(database, seconds=10.0) <= 10


async def test_start_that_is_given_back_does_not_count(database: Database) -> None:
    first = await _start(database)
    refused = await _start(database)
    assert (first.wait, refused.next_at) == (0, None)
    await _give_back(database, first)
    assert await _take(database) == 0


async def test_start_of_another_worker_is_not_given_back(database: Database) -> None:
    first = await _start(database)
    await database.execute("update inboxd.key_rates set next_at = now()")
    with safety():
        assert await _take(database) == 0
        await _give_back(database, first)
        assert await _take(database) > 0, "the second start counts still"
