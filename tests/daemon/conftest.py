"""One worker and one database for each module: a test looks only at its own rows."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import psycopg
import pytest

from inboxd.embedded import Server
from inboxd_testplugin import chunked
from tests.daemon.inbox import TABLES, Inbox
from tests.support import Config, Database, ExternalServer, Worker, create, drop
from tests.support.pooler import way_to
from tests.support.supervising import PATIENCE, Supervise, Supervising


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """Settings of the module's worker that differ from the tests' defaults."""
    return {}


@pytest.fixture(scope="module")
def shared_database(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """The module's database, with the tables of the handlers."""
    fresh = create(server, template.name)
    _prepare(fresh)
    yield fresh
    drop(server, fresh)


@pytest.fixture(scope="module")
def worker(
    shared_database: Database, worker_config: Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    """The module's worker; a test must leave it running."""
    with way_to(shared_database.dsn) as way:
        folder = tmp_path_factory.mktemp("worker")
        shared = Worker(folder, way.dsn, way.over(worker_config))
        try:
            anyio.run(shared.ready)
            yield shared
        finally:
            shared.kill()
            # Captured, so shown only if a test failed.
            sys.stdout.write(shared.output())


@pytest.fixture(scope="module")
def chunk_tables(shared_database: Database) -> None:
    """Create the tables of the handlers of chunks."""
    with psycopg.connect(shared_database.dsn, autocommit=True) as connection:
        connection.execute(chunked.TABLES)


@pytest.fixture
def inbox(shared_database: Database, worker: Worker) -> Iterator[Inbox]:
    """The tables of the module's worker."""
    yield Inbox(shared_database)
    assert worker.process.poll() is None, "The module's worker has ended."


@pytest.fixture
def own(database: Database) -> Inbox:
    """A database of the test's own, with the tables of the handlers."""
    _prepare(database)
    return Inbox(database)


def _prepare(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(TABLES)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Supervise]:
    """Start supervisors, with children that start at once."""
    started: list[Supervising] = []
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:

        def start(*, processes: int = 2, patience: float = PATIENCE, **told: object) -> Supervising:
            for what, value in told.items():
                (tmp_path / what).write_text(str(value))
            started.append(Supervising(tmp_path, listener, processes=processes, patience=patience))
            return started[-1]

        yield start
        for each in started:
            each.end()
            sys.stdout.write(each.output())  # captured, so shown only if the test failed
