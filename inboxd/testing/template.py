"""Servers and databases of tests: one server for a session, a template, a copy for each test.

Promises: an embedded server and its files are gone with the session, however it ends; a copy is
made from a template without connections, and dropped after its test.
Known limits: on a given server, databases of a killed session remain (`inboxd_test_…`); the roles
that migrations make belong to the server, and remain, too.
*See:* `pytest_plugin`, before it; `inboxd.store.testing`, after it.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import ValidationError

from inboxd.embedded import Server
from inboxd.errors import DatabaseError, UsageError
from inboxd.model.misfit import in_other_words
from inboxd.settings import Database
from inboxd.store import testing as store
from inboxd.store.plugin_migrations import migrate
from inboxd.store.session import Session, connect
from inboxd.testing.loop_thread import LoopThread

T = TypeVar("T")

# In memory, if there is enough: each test makes and drops files, which is three times as fast.
_MEMORY = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a private folder in it
_ENOUGH_BYTES = 1 << 30
# Processes of one test run make their templates in turn, each in a second or two.
_TURNS = {"lock_timeout": "120000"}
_INSTEAD = "or name a running server: --inboxd-dsn, INBOXD_TEST_DSN, or inboxd_dsn"


class TestDatabase:
    """A database of tests: `dsn`, the server that it is on, and SQL to prepare or look at it."""

    __test__ = False  # pytest must not collect this class as tests

    def __init__(self, name: str, dsn: str, server: "TestServer") -> None:
        """The database `name` of `server`, at `dsn`."""
        self.name = name
        self.dsn = dsn
        self.server = server

    def __repr__(self) -> str:
        return f"TestDatabase({self.name!r})"

    def execute(self, sql: str, *arguments: object) -> None:
        """Run a statement, or several without arguments, on a new connection."""
        self.server.loop.run(partial(self._execute, sql, *arguments))

    async def _execute(self, sql: str, *arguments: object) -> None:
        async with store.open_session(settings_of(self.dsn)) as session:
            await session.connection.execute(sql, *arguments)


class TestServer:
    """A PostgreSQL server for the databases of tests."""

    __test__ = False

    def __init__(self, dsn_of: Callable[[str], str], dsn: str, *, own: bool) -> None:
        """`dsn`: the database of its own connection; `dsn_of`: the DSN of a database by name."""
        self._dsn_of = dsn_of
        self._settings = settings_of(dsn)
        self._own = own
        self.loop = LoopThread()
        self._session: Session | None = None

    def dsn(self, database: str) -> str:
        """The URL of a database of the server."""
        return self._dsn_of(database)

    def make_template(self, plugins: Collection[str] = ()) -> TestDatabase:
        """Make a database with inboxd's schema and the tables of plugins, to be copied.

        plugins: only plugins of these names; empty: all installed ones. Raises DatabaseError,
        SchemaError or PluginError.
        """
        return self._run(partial(self._make_template, plugins))

    def copy(self, template: TestDatabase) -> TestDatabase:
        """Copy the template to a new database. Raises DatabaseError."""

        async def copy(session: Session) -> TestDatabase:
            return await self._create(session, template.name)

        return self._run(copy)

    def drop(self, database: TestDatabase) -> None:
        """Drop a database, also if it has connections."""
        self._run(lambda session: store.drop(session, database.name))

    def close(self) -> None:
        """Close the connection to the server."""
        if self._session is not None:
            self.loop.run(self._session.connection.close)
        self.loop.close()

    def _run(self, work: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            if self._session is None or self._session.connection.is_closed():
                self._session = await connect(
                    self._settings, "test", plans={"statement_timeout": "0", **_TURNS}
                )
            return await work(self._session)

        return self.loop.run(run)

    async def _make_template(self, plugins: Collection[str], session: Session) -> TestDatabase:
        who = await store.may_create(session)
        if not who["may"]:
            raise DatabaseError(
                f"The role {who['role']!r} is not allowed to create databases, but each test needs "
                f"its own: run ALTER ROLE {who['role']} CREATEDB as a superuser, or leave the DSN "
                "out and `pip install 'inboxd[embedded]'`."
            )
        async with store.alone(session):
            template = await self._create(session, "template0")
            try:
                settings = settings_of(template.dsn)
                async with store.open_session(settings) as inside:
                    await store.make_clock(inside)
                await migrate(settings, plugins)
                async with store.open_session(settings) as inside:
                    await store.follow_clock(inside)
            except BaseException:
                await store.drop(session, template.name)
                raise
        return template

    async def _create(self, session: Session, template: str) -> TestDatabase:
        name = f"inboxd_test_{uuid4().hex[:12]}"
        await store.create(session, name, template, by_file=self._own)
        return TestDatabase(name, self.dsn(name), self)


@contextmanager
def open_server(dsn: str | None) -> Iterator[TestServer]:
    """The server of `dsn`, or an embedded one. Raises DatabaseError."""
    if dsn is not None:
        server = TestServer(partial(_on_server, dsn), dsn, own=False)
        try:
            yield server
        finally:
            server.close()
        return
    folder = Path(tempfile.mkdtemp(prefix="inboxd-test-", dir=_fast_folder()))
    try:
        with _start(folder) as embedded:
            server = TestServer(embedded.dsn, embedded.dsn(), own=True)
            try:
                yield server
            finally:
                server.close()
        shutil.rmtree(embedded.home, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings_of(dsn: str) -> Database:
    """The settings of a test database. Raises UsageError for an invalid DSN."""
    try:
        return Database.model_validate({"dsn": dsn})
    except ValidationError as error:
        raise UsageError(f"The DSN for tests: {in_other_words(error.errors()[0]['msg'])}") from None


def _start(folder: Path) -> Server:
    try:
        return Server.start(folder, durable=False, settings={"max_connections": "200"})
    except DatabaseError as error:
        raise DatabaseError(f"{error} Otherwise, {_INSTEAD}.") from error


def _on_server(dsn: str, database: str) -> str:
    return urlsplit(dsn)._replace(path=f"/{database}").geturl()


def _fast_folder() -> Path | None:
    """The folder with the fastest files; None: the folder of temporary files."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES else None
