"""Servers that vanish without a word, or do not take writes any more: noticed, and passed over."""

import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError
from inboxd.settings import Database as Settings
from inboxd.store.connections import Connection, connect
from tests.support import Database, StartWorker, eventually
from tests.support.databases import AnyServer
from tests.support.proxy import proxy
from tests.support.rows import ExactlyOnce, emit, send

pytestmark = pytest.mark.anyio


async def test_half_open_connections_of_the_processors(
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


async def test_the_worker_probes_the_server_too(database: Database) -> None:
    connection = await connect(Settings.model_validate({"dsn": database.dsn}), "test")
    try:
        transport: Any = getattr(connection, "_transport")  # noqa: B009 - the driver does not type it
        peer = transport.get_extra_info("socket")
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
    finally:
        connection.terminate()


# ------------------------------------------------------------------------------ several hosts


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A host that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _dsn(database: Database, *hosts: str, query: str = "") -> str:
    """The test's database on several hosts; "itself" is where it is."""
    parts = urlsplit(database.dsn)
    login, at, itself = parts.netloc.rpartition("@")
    named = ",".join(itself if host == "itself" else host for host in hosts)
    return urlunsplit(parts._replace(netloc=login + at + named, query=query))


async def _connect(dsn: str) -> Connection:
    settings = {"dsn": dsn, "connect_timeout": "2s", "password": "s3cret"}
    return await connect(Settings.model_validate(settings), "test")


@pytest.mark.parametrize("order", ["before", "behind"])
async def test_a_host_that_says_nothing_is_passed(
    database: Database, black_hole: str, order: str
) -> None:
    hosts = (black_hole, "itself") if order == "before" else ("itself", black_hole)
    connection = await _connect(_dsn(database, *hosts))
    assert await connection.fetchval("select current_database()") == database.name
    connection.terminate()


async def test_no_host_answers(database: Database, black_hole: str) -> None:
    with pytest.raises(DatabaseError, match="nobody answered in time") as caught:
        await _connect(_dsn(database, black_hole, black_hole))
    assert "s3cret" not in str(caught.value)


async def test_a_standby_is_passed(server: AnyServer, restartable_server: Server) -> None:
    """Where a failover left the old primary behind as a standby, it is still named first."""
    with restartable_server.outage():
        (restartable_server.home / "cluster" / "standby.signal").touch()
    standby, primary = restartable_server.dsn(), Database("postgres", server.dsn())
    hosts = (urlsplit(standby).netloc.rpartition("@")[2], "itself")
    connection = await _connect(_dsn(primary, *hosts))
    assert not await connection.fetchval("select pg_is_in_recovery()")
    connection.terminate()
    reader = await _connect(_dsn(primary, *hosts, query="target_session_attrs=any"))
    assert await reader.fetchval("select pg_is_in_recovery()"), "as the DSN says"
    reader.terminate()
    with pytest.raises(DatabaseError, match="wait for the failover"):
        await _connect(_dsn(primary, hosts[0], hosts[0]))
