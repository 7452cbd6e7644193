"""Faults of the database: each 2xx is stored, other requests get 503, and the receiver recovers.

A provider sends each request once, like the provider of bets.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
import asyncpg
import pytest

from inboxd.embedded import Server
from tests.receiver.standstill import standing_still
from tests.support import Database, eventually
from tests.support.disk import fill_up, move_tables, small_disk
from tests.support.locks import lock_awaited
from tests.support.proxy import proxy
from tests.support.received import verify
from tests.support.receiver import Receiver, StartReceiver
from tests.support.sender import Provider

pytestmark = pytest.mark.anyio

# Seconds that a request waits while the database is away.
SOON = {"answer_within": "1s"}


@asynccontextmanager
async def load(receiver: Receiver, inbox: Database) -> AsyncIterator[Provider]:
    """A provider that sends before, during and after the block; then everything is verified."""
    provider = receiver.provider()
    async with provider.load(pause=0.002):
        await provider.goes_on()
        yield provider
        await provider.goes_on()
    receiver.holds()
    await inbox.end_sessions()
    await verify(inbox, provider)
    for answer in provider.refusals:
        assert answer.status == 503, answer
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["content-type"] == "application/problem+json"


async def refused(provider: Provider, more: int = 8) -> None:
    """Wait for at least `more` further 503s."""
    enough = provider.ended["503"] + more

    async def are_refused() -> bool:
        return provider.ended["503"] >= enough

    await eventually(are_refused)


# --------------------------------------------------------------------- the database is stopped


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_stopped_server_is_answered_503(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    mode: Literal["fast", "immediate"],
) -> None:
    receiver = await start_receiver(http=SOON)
    async with load(receiver, inbox) as provider:
        with durable_server.outage(mode):
            await refused(provider)
            assert (await receiver.get("/healthz"))[0] == 200, "a restart would not help"
    await receiver.ready()


async def test_a_killed_session_that_ends_all_others_loses_nothing(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver(http=SOON)
    async with load(receiver, inbox):
        pids = await inbox.fetch(
            "select pid from pg_stat_activity where datname = current_database()"
            " and application_name like 'inboxd%'"
        )
        await inbox.end_sessions()
        os.kill(pids[0]["pid"], signal.SIGKILL)

        async def has_recovered() -> bool:
            try:
                async with inbox.connect() as connection:
                    found: int = await connection.fetchval(
                        "select count(*) from pg_stat_activity where pid = any($1)",
                        [row["pid"] for row in pids],
                    )
            except (asyncpg.PostgresError, asyncpg.InterfaceError):
                return False
            return found == 0

        await eventually(has_recovered)


async def test_repeatedly_terminated_sessions_lose_nothing(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver(http=SOON)
    async with load(receiver, inbox) as provider:
        for _ in range(5):
            assert await inbox.fetchval(
                "select bool_and(pg_terminate_backend(pid)) from pg_stat_activity"
                " where datname = current_database() and application_name like 'inboxd%'"
            )
            await provider.goes_on(5)


# --------------------------------------------------------------------- the database is running


async def test_a_frozen_server_is_answered_503(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver(http=SOON)
    async with load(receiver, inbox) as provider:
        with standing_still(durable_server):
            await refused(provider)
            assert (await receiver.get("/healthz"))[0] == 200, "a restart would not help"


async def test_silently_dropped_connections_lose_nothing(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    """Writes in progress are repeated on another connection, and answered in time."""
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, http=SOON)
        async with load(receiver, inbox) as provider:

            async def are_connected() -> bool:
                return way.count("") >= 2

            await eventually(are_connected)
            assert way.swallow("") >= 2
            await provider.goes_on()
        receiver.kill()


async def test_a_server_without_free_connections_is_answered_503(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver
) -> None:
    role = f"one_{inbox.name}"
    await inbox.execute(f"create role {role} login in role inboxd_receiver")
    receiver = await start_receiver(dsn=inbox.dsn.replace("postgres@", f"{role}@"), http=SOON)
    async with load(receiver, inbox) as provider:
        await inbox.execute(f"alter role {role} connection limit 0")
        await inbox.execute(
            f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
        )
        await refused(provider)
        await inbox.execute(f"alter role {role} connection limit -1")
    receiver.kill()
    await inbox.execute(f"drop role {role}")


@pytest.mark.parametrize("table", ["dedup", "receipts"])
async def test_a_held_lock_is_answered_503(
    inbox: Database, start_receiver: StartReceiver, table: str
) -> None:
    receiver = await start_receiver(http=SOON)
    async with load(receiver, inbox) as provider, inbox.connect() as holder:
        await holder.execute(f"begin; lock table inboxd.{table} in access exclusive mode")
        await lock_awaited(inbox)
        await refused(provider)
        await holder.execute("rollback")


async def test_a_full_disk_is_answered_503(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    with small_disk() as disk:
        space = f"small_{inbox.name}"
        tables = ("receipts", "events", "dedup")
        await move_tables(inbox, durable_server, disk, tables, space)
        receiver = await start_receiver(http=SOON)
        async with load(receiver, inbox) as provider:
            ballast = disk / "ballast"
            await anyio.to_thread.run_sync(fill_up, ballast)
            await refused(provider)
            ballast.unlink()
        receiver.kill()
