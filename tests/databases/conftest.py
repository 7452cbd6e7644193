"""Databases on Debian's PostgreSQL, since the embedded one has no LLVM and no pg_dump.

    def test_restore(database, copy, dumps, at):
        dumps.make(database)
        assert dumps.restore(copy) == 0
        assert at(copy.dsn)("check").code == 0

One server serves all tests of a process. A test changes only its own database; roles belong to the
server, so a test removes the roles that it makes.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from inboxd.embedded import Server
from tests.cli.conftest import Cli, cli, run_cli, sql
from tests.daemon.inbox import TABLES, Inbox
from tests.support import Database, create, create_migrated, drop, temporary_server
from tests.support.packaged import packaged

# pytest finds fixtures by their names in this file.
__all__ = ["cli", "run_cli", "sql"]


def _has_all(programs: Path) -> bool:
    return (programs / "pg_restore").exists() and (programs.parent / "lib/llvmjit.so").exists()


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the server's programs."""
    return packaged(_has_all, "LLVM and pg_dump")


@pytest.fixture(scope="session")
def server(programs: Path) -> Iterator[Server]:
    """A server that these tests share."""
    counting = "pg_stat_statements"
    with temporary_server(binaries=programs, shared_preload_libraries=counting) as running:
        yield running


@pytest.fixture(scope="session")
def template(server: Server) -> Iterator[Database]:
    """A migrated database without sessions, to copy from."""
    database = create_migrated(server)
    yield database
    drop(server, database)


@pytest.fixture
def database(server: Server, template: Database) -> Iterator[Database]:
    """A migrated database of the test's own."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


@pytest.fixture
def inbox(database: Database) -> Inbox:
    """The test's database with the handlers' tables."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(TABLES)
    return Inbox(database)


At = Callable[[str], Cli]


@pytest.fixture
def at(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> At:
    """Let the command line use another database or login from now on; returns it."""

    def turn(dsn: str) -> Cli:
        monkeypatch.setenv("INBOXD_DATABASE__DSN", dsn)
        return cli

    return turn


Login = Callable[..., str]


@pytest.fixture
def login(database: Database) -> Iterator[Login]:
    """Make a login, as a member of a role if one is given; returns the URL of its database."""
    made: list[str] = []

    def make(role: str = "", options: str = "") -> str:
        name = f"{database.name}_{len(made)}"
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            member = f"IN ROLE {role}" if role else ""
            connection.execute(f"CREATE ROLE {name} LOGIN {options} {member}".encode())
            if connection.execute("select to_regclass('ledger')").fetchone() != (None,):
                connection.execute(f"GRANT ALL ON ledger TO {name}".encode())
        made.append(name)
        return as_login(database.dsn, name)

    yield make
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def as_login(dsn: str, name: str) -> str:
    """The URL of the same database for this login."""
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))


def name_of(dsn: str) -> str:
    """The name of the login in a URL."""
    return urlsplit(dsn).username or ""


class Dumps:
    """Makes dumps in a folder, and restores them."""

    def __init__(self, programs: Path, folder: Path) -> None:
        """programs: the folder of pg_dump and pg_restore."""
        self._programs, self._file = programs, folder / "dump"

    def make(self, database: Database) -> None:
        """Dump a database; `restore` uses the last dump."""
        self._run("pg_dump", "-Fc", "-f", str(self._file), database.dsn)

    def restore(self, database: Database, *options: str) -> int:
        """Restore into an empty database; returns the exit code, 1 if a part was skipped."""
        return self._run("pg_restore", *options, "-d", database.dsn, str(self._file), wrong=True)

    def _run(self, program: str, *arguments: str, wrong: bool = False) -> int:
        ran = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0 or wrong, ran.stderr
        return ran.returncode


@pytest.fixture
def dumps(programs: Path, tmp_path: Path) -> Dumps:
    """Dumps in the test's temporary folder."""
    return Dumps(programs, tmp_path)
