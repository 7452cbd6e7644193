"""Outages of the database in every form: with a spool no webhook is refused."""

import os
import sys
from pathlib import Path
from typing import Literal

import anyio
import pytest

from inboxd.embedded import Server
from tests.receiver.spooled import drained, spooled, unrefused
from tests.receiver.standstill import standing_still
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.proxy import proxy
from tests.support.received import verify
from tests.support.receiver import StartReceiver
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_stopped_server_is_spooled(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    spool: Path,
    mode: Literal["fast", "immediate"],
) -> None:
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider:
        with durable_server.outage(mode):
            await provider.goes_on(50)
            await spooled(spool)
            assert (await receiver.get("/readyz"))[0] == 200
    shown = 'inboxd_webhook_requests_total{outcome="spooled",source="bets"}'
    assert await receiver.metric(shown) > 0


async def test_a_frozen_server_is_spooled(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider:
        with standing_still(durable_server):
            await spooled(spool)
            await provider.goes_on(50)


async def test_a_server_without_free_connections_is_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    role = f"one_{inbox.name}"
    await inbox.execute(f"create role {role} login in role inboxd_receiver")
    dsn = inbox.dsn.replace("postgres@", f"{role}@")
    receiver = await start_receiver(spool={}, dsn=dsn)
    async with unrefused(receiver, inbox, spool) as provider:
        await inbox.execute(f"alter role {role} connection limit 0")
        await inbox.execute(
            f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
        )
        await spooled(spool)
        await provider.goes_on(50)
        await inbox.execute(f"alter role {role} connection limit -1")
    receiver.kill()
    await inbox.execute(f"drop role {role}")


async def test_a_read_only_server_is_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """A standby, or a demoted primary: the probe succeeds, and writes fail."""
    receiver = await start_receiver(spool={})
    name = inbox.name
    async with unrefused(receiver, inbox, spool) as provider:
        await inbox.execute(f"alter database {name} set default_transaction_read_only = on")
        await inbox.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'inboxd%'"
        )
        await spooled(spool)
        await provider.goes_on(50)
        async with inbox.connect() as connection:
            await connection.execute("set default_transaction_read_only = off")
            await connection.execute(f"alter database {name} reset default_transaction_read_only")
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'inboxd%'"
            )


async def test_a_server_in_recovery_is_spooled_until_its_promotion(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """After a failover the address may lead to a standby, which becomes the primary."""
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider:
        with durable_server.outage():
            (durable_server.home / "cluster" / "standby.signal").touch()
        assert await inbox.fetchval("select pg_is_in_recovery()")
        await spooled(spool)
        await provider.goes_on(50)
        assert await inbox.fetchval("select pg_promote()")
        assert not await inbox.fetchval("select pg_is_in_recovery()")


@pytest.mark.parametrize("table", ["dedup", "receipts"])
async def test_a_locked_database_is_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path, table: str
) -> None:
    """Writes may be repeated: the commit comes after the time limit."""
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider, inbox.connect() as holder:
        await holder.execute(f"begin; lock table inboxd.{table} in access exclusive mode")
        await lock_awaited(inbox)
        await spooled(spool)
        await provider.goes_on(50)
        await holder.execute("rollback")


async def test_lost_answers_of_the_server_are_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """Among them are answers to commits: such receipts are in the database and in the spool."""
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, spool={})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.silence(""):
                await spooled(spool)
                await provider.goes_on(50)
        receiver.kill()


async def test_a_network_slower_than_the_time_limit_is_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, spool={})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.slow(2.0):
                await spooled(spool)
                await provider.goes_on(50)
        receiver.kill()


async def test_a_network_faster_than_the_time_limit_is_not_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with proxy(inbox.dsn) as way:
        # A time limit that also a busy machine keeps.
        receiver = await start_receiver(dsn=way.dsn, spool={"after": "20s"})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.slow(0.05):
                await provider.goes_on(20)
        assert (
            await receiver.metric('inboxd_webhook_requests_total{outcome="spooled",source="bets"}')
            == 0
        )
        receiver.kill()


async def test_an_erased_tenant_is_not_drained_from_the_spool(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(
            dsn=way.dsn,
            spool={},
            source={"tenant": "pointer:/match"},
        )
        provider = receiver.provider()
        with way.silence(""):
            for key in ("gone", "stays"):
                assert (await provider.offer(key)).accepted
            erase = [
                sys.executable,
                "-m",
                "inboxd",
                "erase",
                "--tenant",
                "gone",
                "--yes",
                "--force",
            ]
            await anyio.run_process(erase, env={**os.environ, "INBOXD_DATABASE__DSN": inbox.dsn})
        await drained(spool)
        provider.close()
        receiver.kill()
    events = await inbox.fetch("select tenant from inboxd.events")
    bodies = await inbox.fetch("select body <> '' as kept from inboxd.receipts order by receipt_id")
    with safety():
        assert [row["tenant"] for row in events] == ["stays"]
        assert [row["kept"] for row in bodies] == [False, True]


async def test_repeatedly_terminated_sessions_are_spooled(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider:
        for _ in range(5):
            await inbox.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'inboxd%'"
            )
            await provider.goes_on(5)


async def test_a_receiver_that_starts_without_the_server_spools(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with durable_server.outage():
        receiver = await start_receiver(spool={})
        provider = receiver.provider()
        for key in "abc":
            assert (await provider.offer(key)).accepted
        assert (await provider.offer("a")).accepted
    await drained(spool)
    assert (await provider.offer("a")).accepted
    provider.close()
    receiver.holds()
    await verify(inbox, provider)


async def test_two_processes_of_a_host_spool_the_same_sources(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """A source that one process spools is also spooled by the other."""
    receiver = await start_receiver(spool={}, arguments=["--processes", "2"])
    async with unrefused(receiver, inbox, spool) as provider:
        with durable_server.outage():
            await spooled(spool)
            await provider.goes_on(50)
    assert len(list((spool / "spools").iterdir())) == 2
    assert await receiver.stop() == 0


async def test_the_spool_of_a_stopped_receiver_is_drained_by_a_successor(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with durable_server.outage():
        receiver = await start_receiver(spool={})
        provider = receiver.provider()
        async with provider.load(keys=8):
            await provider.goes_on(50)
        assert await receiver.stop() == 0
    successor = await start_receiver(spool={})
    await drained(spool)
    await verify(inbox, provider)
    assert provider.accepted == len(provider.ledger)
    successor.holds()
