"""Servers and databases for tests: real PostgreSQL, a fresh database for each test.

    assert await database.fetchval("select count(*) from inboxd.events") == 1  # the fixture

Promises: a test's database is a copy of one that was migrated once, and is dropped after the test.
"""

import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import anyio
import asyncpg
import psycopg

from inboxd.embedded import Server
from inboxd.embedded.datadir import Place, spawn
from inboxd.settings import Database as Settings
from inboxd.store.migrations import migrate
from tests.support.kept import KeptConnections
from tests.support.ports import held_port
from tests.support.waiting import patient

# No test is about a crash of the machine, so fsync is off unless this is set.
_DURABLE = bool(os.environ.get("INBOXD_TEST_DURABLE"))
# The folder of another PostgreSQL's programs, instead of the embedded one's.
_BINARIES = Path(found) if (found := os.environ.get("INBOXD_TEST_POSTGRES")) else None
# Memory, where there is enough: each test creates and drops files, three times as fast there.
_MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a folder of its own in it
_ENOUGH = 8 << 30
# Daily partitions of history: they are most of a database's files, and each test has a database.
DAYS_AHEAD = 4
_DROP_DAYS = f"""
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN SELECT oid::regclass FROM pg_class
                 WHERE relispartition AND relkind = 'r'
                   AND right(relname, 8) > to_char(current_date + {DAYS_AHEAD}, 'YYYYMMDD')
    LOOP
        EXECUTE 'DROP TABLE ' || part;
    END LOOP;
END $$
"""
_SETTINGS = {"max_connections": "200", "synchronous_commit": "on", "timezone": "UTC"}


class AnyServer(Protocol):
    """A server that can name the URL of a database."""

    def dsn(self, database: str = "postgres") -> str:
        """The URL of a database, as a superuser."""


@dataclass(frozen=True)
class ExternalServer:
    """A server that runs already, given by INBOXD_TEST_DSN."""

    url: str

    def dsn(self, database: str = "postgres") -> str:
        """The URL of another database on this server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{database}"))


@dataclass(frozen=True)
class Database:
    """One database, for one test."""

    name: str
    dsn: str

    @cached_property
    def _kept(self) -> KeptConnections:
        return KeptConnections(self.dsn)

    async def end_sessions(self) -> None:
        """Close the sessions that are kept for the next statement."""
        await self._kept.close()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[asyncpg.Connection]:
        """A new connection, closed at the end."""
        connection = await asyncpg.connect(self.dsn, timeout=patient(10))
        try:
            yield connection
        finally:
            connection.terminate()

    async def fetch(self, query: str, *arguments: object) -> list[asyncpg.Record]:
        """Return the rows of a query, run on a connection that no other task uses meanwhile."""
        async with self._kept.borrow() as connection:
            return await connection.fetch(query, *arguments)

    async def fetchval(self, query: str, *arguments: object) -> Any:
        """Return the first value of a query, on a connection that no other task uses meanwhile."""
        async with self._kept.borrow() as connection:
            return await connection.fetchval(query, *arguments)

    async def execute(self, query: str, *arguments: object) -> str:
        """Run one statement (or several without arguments); return the last command tag."""
        async with self._kept.borrow() as connection:
            return await connection.execute(query, *arguments)


@contextmanager
def temporary_server(
    *, binaries: Path | None = _BINARIES, durable: bool = _DURABLE, **settings: str
) -> Iterator[Server]:
    """An embedded server in a temporary folder; `settings` are PostgreSQL's.

    binaries: the folder of another PostgreSQL's programs. durable: on a disk, with fsync.
    """
    place = None if durable else _fast_folder()
    folder = Path(tempfile.mkdtemp(prefix="inboxd-test-", dir=place))
    try:
        with (
            held_port() as held,
            Server.start(
                folder,
                port=held.getsockname()[1],
                settings=_SETTINGS | settings,
                durable=durable,
                binaries=binaries,
            ) as server,
        ):
            yield server
        shutil.rmtree(server.home)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class ServerCopy:
    """A base backup of a server; started, it is that server as it was when the backup was taken."""

    def __init__(self, folder: Path) -> None:
        """No backup is taken yet. folder: where it will be."""
        self._folder = folder
        self._server: Server | None = None

    def take(self, server: Server, *, follows: bool = False) -> None:
        """Take the backup of a running server.

        follows: started, the copy is a standby of that server.
        """
        place = Place.prepare(self._folder, _BINARIES)
        command = [str(place.binaries / "pg_basebackup"), "-D", str(place.cluster)]
        command += ["-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres"]
        command += ["-X", "stream", "-c", "fast", *(["-R"] if follows else [])]
        with place.log.open("ab") as log:
            code = spawn(command, place.account, log=log).wait()
        assert code == 0, place.log.read_text(errors="replace")

    def start(self, port: int, **settings: str) -> Server:
        """Start the copy at a port; `settings` override those of the original."""
        self._server = Server.start(
            self._folder,
            port=port,
            settings=_SETTINGS | settings,
            durable=_DURABLE,
            binaries=_BINARIES,
        )
        return self._server

    def stop(self) -> None:
        """Stop the server, if it runs."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def remove(self) -> None:
        home = None if self._server is None else self._server.home
        self.stop()
        for each in (home, self._folder):
            if each is not None:
                shutil.rmtree(each, ignore_errors=True)


@contextmanager
def server_copy() -> Iterator[ServerCopy]:
    """A copy that is not taken yet; it is removed at the end."""
    copy = ServerCopy(Path(tempfile.mkdtemp(prefix="inboxd-test-", dir=_fast_folder())))
    try:
        yield copy
    finally:
        copy.remove()


def _fast_folder() -> Path | None:
    """The fastest folder for files; None: the default for temporary files."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _ENOUGH else None


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder that the server's account can enter, unlike pytest's `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="inboxd-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def create(server: AnyServer, template: str = "template0") -> Database:
    """Create a database: empty, or a copy of a template that has no connections.

    FILE_COPY, since logging each page to the WAL costs three times as much.
    """
    name = f"inboxd_test_{uuid.uuid4().hex[:12]}"
    _administer(server, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    return Database(name, server.dsn(name))


def create_migrated(server: AnyServer) -> Database:
    """Create a database with inboxd's schema, and partitions for `DAYS_AHEAD` days."""
    database = create(server)
    anyio.run(migrate, Settings.model_validate({"dsn": database.dsn}))
    with psycopg.connect(database.dsn) as connection:
        connection.execute(_DROP_DAYS)
    return database


def drop(server: AnyServer, database: Database) -> None:
    """Drop a database, and end its connections."""
    _administer(server, f"DROP DATABASE {database.name} WITH (FORCE)")


def _administer(server: AnyServer, statement: str) -> None:
    # psycopg, because fixtures are synchronous: they serve synchronous and asynchronous tests.
    with psycopg.connect(
        server.dsn(), autocommit=True, connect_timeout=int(patient(10))
    ) as connection:
        connection.execute(statement.encode())
