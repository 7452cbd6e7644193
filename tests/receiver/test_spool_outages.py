"""The database goes away in every way, and with a spool no webhook is refused for it."""

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
async def test_it_is_stopped(
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


async def test_it_stands_still(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider:
        with standing_still(durable_server):
            await spooled(spool)
            await provider.goes_on(50)


async def test_it_has_no_connection_left(
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


async def test_it_only_reads(inbox: Database, start_receiver: StartReceiver, spool: Path) -> None:
    """As a standby does, and who is demoted: the probe finds it there, writes fail."""
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


async def test_it_is_in_recovery_until_it_is_promoted(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """As after a failover: what listens there now is a standby, which becomes the primary."""
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
async def test_it_is_slow_past_its_budget(
    inbox: Database, start_receiver: StartReceiver, spool: Path, table: str
) -> None:
    """What is written may be repeated: a commit comes after the budget."""
    receiver = await start_receiver(spool={})
    async with unrefused(receiver, inbox, spool) as provider, inbox.connect() as holder:
        await holder.execute(f"begin; lock table inboxd.{table} in access exclusive mode")
        await lock_awaited(inbox)
        await spooled(spool)
        await provider.goes_on(50)
        await holder.execute("rollback")


async def test_its_answers_are_swallowed(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """Commits whose answers are lost, among them: in the database and in the spool, there once."""
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, spool={})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.silence(""):
                await spooled(spool)
                await provider.goes_on(50)
        receiver.kill()


async def test_the_way_to_it_is_slow_past_its_budget(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with proxy(inbox.dsn) as way:
        receiver = await start_receiver(dsn=way.dsn, spool={})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.slow(2.0):
                await spooled(spool)
                await provider.goes_on(50)
        receiver.kill()


async def test_the_way_to_it_is_slow_within_its_budget(
    inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with proxy(inbox.dsn) as way:
        # A budget that a busy machine keeps to as well.
        receiver = await start_receiver(dsn=way.dsn, spool={"after": "20s"})
        async with unrefused(receiver, inbox, spool) as provider:
            with way.slow(0.05):
                await provider.goes_on(20)
        assert (
            await receiver.metric('inboxd_webhook_requests_total{outcome="spooled",source="bets"}')
            == 0
        )
        receiver.kill()


async def test_who_is_erased_meanwhile_does_not_come_back(
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


async def test_its_sessions_are_terminated_again_and_again(
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


async def test_a_start_without_it(
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


async def test_two_processes_of_a_host(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    """A source that one of them spools, the other spools too."""
    receiver = await start_receiver(spool={}, arguments=["--processes", "2"])
    async with unrefused(receiver, inbox, spool) as provider:
        with durable_server.outage():
            await spooled(spool)
            await provider.goes_on(50)
    assert len(list((spool / "spools").iterdir())) == 2
    assert await receiver.stop() == 0


async def test_it_stops_and_another_drains(
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
