"""Servers that vanish silently, or no longer accept writes: noticed, and passed over."""

import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from urllib.parse import urlsplit, urlunsplit

import anyio
import pytest

from inboxd.commands.ended import EndedCommand
from inboxd.commands.settler import Settler
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.embedded import Server
from inboxd.engine.batch_folder import BatchFolder
from inboxd.engine.fleet import Fleet
from inboxd.errors import DatabaseError
from inboxd.model.lane import Lane
from inboxd.settings import Database as Settings
from inboxd.store import commands, workers
from inboxd.store.connections import LOST
from inboxd.store.pools import borrow, open_pool
from inboxd.store.session import Session, connect
from inboxd.store.settlements import Settlement
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, StartWorker, eventually
from tests.support.databases import AnyServer
from tests.support.locks import lock_awaited, waiters
from tests.support.proxy import proxy
from tests.support.rows import ExactlyOnce, daemon_session, emit, join, send
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


@pytest.mark.long
async def test_half_open_connections_are_replaced(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    with proxy(ledger.dsn) as way:
        worker = await start_worker(
            {
                "database": {"dsn": way.dsn, "statement_timeout": "1s"},
                "worker": {"poll_interval": "500ms"},
            }
        )
        await exactly_once("event", await emit(ledger, 1))
        assert way.swallow("daemon") > 0

        async def is_unready() -> bool:
            status, page = await worker.get("/readyz")
            return status == 503 and "waits for the database" in page

        await eventually(is_unready)
        await ledger.execute("delete from ledger")
        events, commands = await emit(ledger, 3), await send(ledger, 3)
        await exactly_once("event", events)
        await exactly_once("command", commands)
        await worker.ready()
        worker.kill()


async def test_a_vanished_server_is_waited_for_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not answer a rollback: settling and declaring dead use new connections."""
    monkeypatch.setattr("inboxd.store.pools._GRACE_SECONDS", 0.0)
    monkeypatch.setattr("inboxd.store.pools._PATIENCE", 3600.0)
    async with AsyncExitStack() as stack:
        way = stack.enter_context(proxy(database.dsn))
        settings = Settings.model_validate({"dsn": way.dsn, "statement_timeout": "3s"})
        pool = await stack.enter_async_context(open_pool(settings, "test", 2))
        session = await stack.enter_async_context(daemon_session(database))
        worker, dead = await join(session), await join(session, "dead")
        await send(session.connection, 1, "test.noop")
        lane = Lane(("default", "test.noop", 0))
        async with borrow(pool) as vanished, borrow(pool) as other:
            (row,) = await commands.claim(vanished, worker, {"default": 1}, [lane], 1)
        me = SimpleNamespace(id=worker)
        folder = BatchFolder(pool)
        parts: Any = MagicMock(
            metrics=Metrics("test"), me=me, pool=pool, fleet=Fleet(), folder=folder
        )
        outcomes = UnwrittenOutcomes()
        settler = Settler(
            parts,
            outcomes,
            MagicMock(refused=lambda _ended, error: pytest.fail(str(error))),
            MagicMock(),
        )

        async def declare_dead() -> None:
            with pytest.raises(LOST):
                await workers.declare_dead(pool, dead, 0, 3)

        async def nobody_waits() -> bool:
            return not await waiters(database)

        ended = Settlement(row["id"], row["fence"], "succeeded", 1.0, None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settler.run)
            async with session.transaction():
                await session.connection.execute("lock inboxd.commands in access exclusive mode")
                outcomes.hand_over(EndedCommand(row, ended))
                tasks.start_soon(declare_dead)
                await lock_awaited(database, 2)
                assert way.swallow("test") == 2
                for each in (vanished, other):  # later statements on these wait
                    _wait_an_hour(each)
                await eventually(nobody_waits)  # the server's own time limit
            with bounded():
                await outcomes.flush()
            tasks.cancel_scope.cancel()
        assert await database.fetchval("select count(*) from inboxd.commands_history") == 1
        assert await workers.declare_dead(pool, dead, 0, 3) == []


def _wait_an_hour(session: Session) -> None:
    """Make the driver wait an hour for later statements."""
    connection = session.connection
    config = getattr(connection, "_config")  # noqa: B009 - the driver does not type it
    setattr(connection, "_config", config._replace(command_timeout=3600))  # noqa: B010 - as above


async def test_the_worker_probes_the_server_by_keepalive(database: Database) -> None:
    session = await connect(Settings.model_validate({"dsn": database.dsn}), "test")
    try:
        # The driver does not type it.
        transport: Any = getattr(session.connection, "_transport")  # noqa: B009
        peer = transport.get_extra_info("socket")
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
    finally:
        session.connection.terminate()


# ------------------------------------------------------------------------------ several hosts


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A host that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _dsn(database: Database, *hosts: str, query: str = "") -> str:
    """The DSN of the test's database on several hosts; "itself" is its own host."""
    parts = urlsplit(database.dsn)
    login, at, itself = parts.netloc.rpartition("@")
    named = ",".join(itself if host == "itself" else host for host in hosts)
    return urlunsplit(parts._replace(netloc=login + at + named, query=query))


async def _connect(dsn: str) -> Session:
    settings = {"dsn": dsn, "connect_timeout": "2s", "password": "s3cret"}
    return await connect(Settings.model_validate(settings), "test")


@pytest.mark.parametrize("order", ["before", "behind"])
async def test_a_host_that_sends_nothing_is_passed(
    database: Database, black_hole: str, order: str
) -> None:
    hosts = (black_hole, "itself") if order == "before" else ("itself", black_hole)
    session = await _connect(_dsn(database, *hosts))
    assert await session.connection.fetchval("select current_database()") == database.name
    session.connection.terminate()


async def test_an_error_names_that_no_host_answers(database: Database, black_hole: str) -> None:
    with pytest.raises(DatabaseError, match="no answer in time") as caught:
        await _connect(_dsn(database, black_hole, black_hole))
    assert "s3cret" not in str(caught.value)


async def test_a_standby_is_passed(server: AnyServer, restartable_server: Server) -> None:
    """A failover may leave the old primary behind as a standby, still named first in the DSN."""
    with restartable_server.outage():
        (restartable_server.home / "cluster" / "standby.signal").touch()
    standby, primary = restartable_server.dsn(), Database("postgres", server.dsn())
    hosts = (urlsplit(standby).netloc.rpartition("@")[2], "itself")
    session = await _connect(_dsn(primary, *hosts))
    assert not await session.connection.fetchval("select pg_is_in_recovery()")
    session.connection.terminate()
    reader = await _connect(_dsn(primary, *hosts, query="target_session_attrs=any"))
    assert await reader.connection.fetchval("select pg_is_in_recovery()"), (
        "the DSN allows a standby"
    )
    reader.connection.terminate()
    with pytest.raises(DatabaseError, match="wait for the failover"):
        await _connect(_dsn(primary, hosts[0], hosts[0]))
