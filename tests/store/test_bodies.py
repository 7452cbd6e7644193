"""Payloads in bodies: many are read at once, within the bytes that may be in flight."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import pytest

from inboxd.commands.bodies import CommandBodies
from inboxd.commands.leases import ReadyCommands
from inboxd.store import bodies
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from tests.support import Database, eventually
from tests.support.rows import daemon_pool, send

pytestmark = pytest.mark.anyio

SIZE = 10_000


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each read."""
    counted: list[int] = []
    original = bodies.read

    async def read(session: Session, rows: Sequence[ClaimedCommand]) -> dict[int, str]:
        counted.append(len(rows))
        return await original(session, rows)

    monkeypatch.setattr(bodies, "read", read)
    return counted


@asynccontextmanager
async def _opened(
    database: Database, most: int, upcoming: Sequence[ClaimedCommand] = ()
) -> AsyncIterator[CommandBodies]:
    async with daemon_pool(database) as pool:
        yield CommandBodies(pool, most, ReadyCommands((row, 0.0) for row in upcoming))


async def _rows(database: Database, count: int) -> list[ClaimedCommand]:
    await send(database, count, "test.noop", pad="x" * SIZE)
    rows = await database.fetch(
        "select id, body_id, body_at, body_bytes from inboxd.commands order by id"
    )
    return cast("list[ClaimedCommand]", rows)


async def test_one_read_serves_the_commands_that_start_next(
    database: Database, reads: list[int]
) -> None:
    rows = await _rows(database, 20)
    async with _opened(database, 10**9, rows[1:]) as payloads:
        for number, row in enumerate(rows, 1):
            raw = await payloads.take(row)
            assert raw is not None
            assert f'"n": {number},' in raw
            payloads.done(row)
        assert payloads._used == 0
    assert reads == [20]


async def test_payload_that_does_not_fit_waits(database: Database, reads: list[int]) -> None:
    rows = await _rows(database, 3)
    async with _opened(database, int(1.5 * SIZE), rows[1:]) as payloads:
        await payloads.take(rows[0])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(payloads.take, rows[1])
            with anyio.move_on_after(0.1):
                await payloads.take(rows[2])
            assert reads == [1]
            payloads.done(rows[0])
        assert payloads.is_read(rows[1])
        payloads.done(rows[1])
        assert payloads._used == 0


async def test_payload_larger_than_the_limit_is_read_alone(
    database: Database, reads: list[int]
) -> None:
    rows = await _rows(database, 2)
    async with _opened(database, 1, rows[1:]) as payloads:
        for row in rows:
            assert await payloads.take(row)
            payloads.done(row)
    assert reads == [1, 1]


async def test_small_payloads_do_not_overtake_a_large_one_that_waits(
    database: Database, reads: list[int]
) -> None:
    await send(database, 1, "test.noop", pad="x" * 5 * SIZE)
    large, first, second, late = await _rows(database, 3)
    order: list[int] = []

    async def take(row: ClaimedCommand) -> None:
        await payloads.take(row)
        order.append(row["id"])

    async with _opened(database, int(2.5 * SIZE)) as payloads:
        await take(first)
        await take(second)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, large)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(take, late)
            payloads.done(first)
            await anyio.wait_all_tasks_blocked()
            assert reads == [1, 1]
            payloads.done(second)

            async def is_read() -> bool:
                return payloads.is_read(large)

            await eventually(is_read)
            payloads.done(large)
    assert order == [row["id"] for row in (first, second, large, late)]


async def test_failed_read_of_several_is_repeated_for_each_and_later(
    database: Database, reads: list[int]
) -> None:
    rows = await _rows(database, 2)
    async with _opened(database, 10**9, rows[1:]) as payloads:
        await database.execute("alter table inboxd.bodies rename to away")
        for row in rows:
            with pytest.raises(Exception, match="does not exist"):
                await payloads.take(row)
        assert reads == [2, 1, 1], "one read of both, then one read of each"
        for row in rows:
            payloads.done(row)
        await database.execute("alter table inboxd.away rename to bodies")
        assert await payloads.take(rows[0])
        assert payloads._used == 2 * (rows[0]["body_bytes"] or 0)


async def test_command_released_during_its_read_frees_its_bytes(database: Database) -> None:
    rows = await _rows(database, 2)
    async with _opened(database, 10**9, rows[1:]) as payloads:
        async with database.connect() as operator, anyio.create_task_group() as tasks:
            await operator.execute("begin; lock table inboxd.bodies")
            tasks.start_soon(payloads.take, rows[0])

            async def is_asked_for() -> bool:
                return rows[1]["id"] in payloads._places

            await eventually(is_asked_for)
            payloads.done(rows[1])
            await operator.execute("rollback")
        payloads.done(rows[0])
        assert payloads._used == 0
        assert await payloads.take(rows[1])
