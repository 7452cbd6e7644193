"""A new password of the login: the next connection uses it, and a worker goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import psycopg
import pytest

from inboxd.errors import DatabaseError
from inboxd.settings import Database as Settings
from inboxd.settings import load
from inboxd.store.pools import borrow, open_pool
from inboxd.store.session import connect
from tests.support import Database, Worker, create_migrated, eventually, temporary_server
from tests.support.rows import emit

pytestmark = pytest.mark.anyio

LOGIN = "rotated"
# The server asks this login alone for a password.
_RULES = f"host all {LOGIN} all scram-sha-256\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Database]:
    """A migrated database on a server of its own, with a login that has a password."""
    with temporary_server() as server:
        database = create_migrated(server)
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute(f"create role {LOGIN} login superuser".encode())
        rules = server.home / "cluster/pg_hba.conf"
        with server.outage():
            rules.write_text(_RULES + rules.read_text())
        yield database


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the password, as a platform mounts it."""
    return tmp_path / "password"


@pytest.fixture
async def settings(guarded: Database, file: Path) -> Settings:
    """The settings of a daemon that reads the file; the password is `old`."""
    await _change(guarded, file, "old")
    return load(None, _environment(guarded, file)).database


def _dsn(guarded: Database) -> str:
    parts = urlsplit(guarded.dsn)
    return urlunsplit(parts._replace(netloc=f"{LOGIN}@{parts.netloc.rpartition('@')[2]}"))


def _environment(guarded: Database, file: Path) -> dict[str, str]:
    return {
        "INBOXD_DATABASE__DSN": _dsn(guarded),
        "INBOXD_DATABASE__PASSWORD_FILE": str(file),
    }


async def _change(guarded: Database, file: Path, password: str) -> None:
    """Change the password in the server and in the file."""
    await guarded.execute(f"alter role {LOGIN} password '{password}'")
    await anyio.Path(file).write_text(f"{password}\n")


async def _end_sessions(guarded: Database) -> None:
    await guarded.execute(
        f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{LOGIN}'"
    )


async def test_next_connection_uses_the_new_password(
    guarded: Database, settings: Settings, file: Path
) -> None:
    for password in ("old", "new"):
        await _change(guarded, file, password)
        session = await connect(settings, "test")
        assert await session.connection.fetchval("select current_user") == LOGIN
        await session.connection.close()
    await anyio.Path(file).write_text("wrong")
    with pytest.raises(DatabaseError, match=r"check the user and the password"):
        await connect(settings, "test")


async def test_next_connection_of_a_pool_uses_the_new_password(
    guarded: Database, settings: Settings, file: Path
) -> None:
    async with open_pool(settings, "test", 1) as pool:
        async with borrow(pool) as session:
            await session.connection.close()  # as an outage does it
        await _change(guarded, file, "new")
        async with borrow(pool) as session:
            assert await session.connection.fetchval("select current_user") == LOGIN


async def test_worker_goes_on_after_its_password_was_changed(
    guarded: Database, settings: Settings, file: Path, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"dsn": _dsn(guarded), "password_file": str(file)}
    worker = Worker(tmp_path, guarded.dsn, {"database": given})
    try:
        await worker.ready()
        await _change(guarded, file, "new")
        await _end_sessions(guarded)
        await emit(guarded, 1, "test.noop")

        async def is_settled() -> bool:
            done = "select count(*) from inboxd.events_history where status = 'succeeded'"
            return bool(await guarded.fetchval(done) == 1)

        await eventually(is_settled)
        assert await worker.stop() == 0
    finally:
        worker.kill()
