"""Fixtures of all tests: a PostgreSQL server, a fresh database for each test, worker processes.

With INBOXD_TEST_DSN the server is the one it names (a superuser's URL); else an embedded one is
started, once for the whole run. Fixtures are lazy: a test of pure rules starts no server.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support import (
    Config,
    Database,
    ExternalServer,
    StartWorker,
    Worker,
    create,
    create_migrated,
    drop,
    temporary_server,
)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the daemon runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def server() -> Iterator[Server | ExternalServer]:
    """The server that all tests share: none may restart it."""
    if url := os.environ.get("INBOXD_TEST_DSN"):
        yield ExternalServer(url)
        return
    with temporary_server() as embedded:
        yield embedded


@pytest.fixture(scope="session")
def template(server: Server | ExternalServer) -> Iterator[Database]:
    """A migrated database that nobody connects to."""
    database = create_migrated(server)
    yield database
    drop(server, database)


@pytest.fixture
def database(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """A migrated database of the test's own."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


@pytest.fixture
def restartable_server() -> Iterator[Server]:
    """An embedded server of the test's own, to restart, stop and kill."""
    with temporary_server() as embedded:
        yield embedded


@pytest.fixture
def restartable_database(restartable_server: Server) -> Database:
    """A migrated database on `restartable_server`; it ends with it."""
    return create_migrated(restartable_server)


@pytest.fixture
def start_worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers on the test's database: `restartable_database` if it asks for that one."""
    restartable = "restartable_database" in request.fixturenames
    target = request.getfixturevalue("restartable_database" if restartable else "database")
    workers: list[Worker] = []

    async def start(config: Config | None = None, *, ready: bool = True) -> Worker:
        worker = Worker(tmp_path, target.dsn, config)
        workers.append(worker)
        if ready:
            await worker.ready()
        return worker

    yield start
    for worker in workers:
        worker.kill()
        # Captured, and so shown only if the test failed.
        sys.stdout.write(f"--- {worker.log.name}\n{worker.output()}\n")
