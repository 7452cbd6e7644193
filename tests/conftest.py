"""Fixtures of all tests: a PostgreSQL server, a fresh database for each test, worker processes.

With INBOXD_TEST_DSN the server is the one it names (a superuser's URL); otherwise an embedded one
is started once per run. With INBOXD_TEST_POOLER the processes of a test reach the server through a
PgBouncer in transaction mode, while the test itself connects directly. Fixtures are lazy: a test of
pure rules starts no server.

In CI (INBOXD_TEST_EVERYTHING) a test that skips itself fails; on a developer's machine the summary
says what is missing.

`make test` runs several processes side by side (pytest-xdist), each with a server of its own: most
of the time tests wait, for leases, retries and polls.
"""

import logging
import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
import structlog
from _pytest.nodeid import NodeId

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
from tests.support.failures import pytest_runtest_makereport
from tests.support.pooler import EVERYWHERE, way_to
from tests.support.time_limits import pytest_pyfunc_call, seconds_of
from tests.support.types import StrictTypes, strict_types
from tests.support.waiting import PATIENCE, far_from_the_hour, patient

# pytest finds a hook by its name in this file.
__all__ = ["pytest_pyfunc_call", "pytest_runtest_makereport"]

if TYPE_CHECKING:
    from tests.support.rabbitmq import RabbitMQServer

# Folders whose tests wait for leases and faults.
_WAITING = ("chaos", "faults", "machine")
# An example's time says more about the machine than about the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
# The seed of tests that look for unknown faults: a new one in each run, unless it is given.
_FRESH = "INBOXD_TEST_SEED"
# Heavy servers, as session fixture and kind: all tests that use a kind run in one process, so that
# a run has one server of each kind at a time, however many processes it has.
_ONE_OF_EACH = {"rabbitmq_of_all": "rabbitmq", "one_nats": "nats", "one_kafka": "kafka"}


# Time limits of tests above this number of seconds are not scaled.
_SCALED_UP_TO = 300.0


def pytest_configure() -> None:
    """Let Ctrl-C reach a test's processes, even if a shell runs this in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Set before xdist starts its processes, so that all of them have the same seed.
    os.environ.setdefault(_FRESH, str(random.randrange(10**6)))


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """Let a hang-up reach a test's processes, even under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_report_header() -> str:
    """The seed of random choices, to repeat a run."""
    return f"fresh seed: {_FRESH}={os.environ[_FRESH]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that cannot run behind a pooler; scale time limits; group and sort the tests.

    A test's own time limit is scaled as its waits are. With xdist, tests that share a module's
    fixture stay in one process, and the tests that wait longest come first, so that the run does
    not end with them.
    """
    for item in items if EVERYWHERE else ():
        if mark := item.get_closest_marker("direct"):
            item.add_marker(pytest.mark.skip(reason=f"not behind a pooler: {mark.args[0]}"))
    for item in items if PATIENCE != 1 else ():
        seconds = seconds_of(item)
        longest = max(seconds, patient(_SCALED_UP_TO))  # a hang must not use up the gate's time
        item.add_marker(pytest.mark.timeout(min(patient(seconds), longest)), append=False)
    if "PYTEST_XDIST_WORKER" in os.environ:
        for item in items:
            if (shared := _shared(item)) is not None:
                # `--dist loadgroup` looks for it here. The mark of xdist 3.8 does not get here.
                setattr(item, "_id", NodeId.parse(f"{item.nodeid}@{shared}"))  # noqa: B010
        items.sort(key=lambda item: item.path.parent.name not in _WAITING)


def _shared(item: pytest.Item) -> str | None:
    """The name of the fixture that this test shares with others of its module or session."""
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - pytest has no other way
    if "strict" in fixtures:
        return "strict"
    for fixture, kind in _ONE_OF_EACH.items():
        if fixture in fixtures:
            return kind
    shared = {name for name, found in fixtures.items() if found[-1].scope == "module"}
    if not shared:
        return None
    parameters = getattr(item, "callspec", None)
    which = {} if parameters is None else parameters.indices
    chosen = [str(which[name]) for name in sorted(shared & which.keys())]
    return "-".join((item.path.parent.name, item.path.stem, *chosen))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Undo a test's `logs.configure`: its stream ends with it, and no later line can be written."""
    root, configured = logging.getLogger(), structlog.is_configured()
    handlers, level, showwarning = [*root.handlers], root.level, warnings.showwarning
    yield
    for handler in [*root.handlers]:
        if handler not in handlers and type(handler).__module__ != "_pytest.logging":
            root.removeHandler(handler)
            root.setLevel(level)
            logging.captureWarnings(capture=False)
            warnings.showwarning = showwarning
            if not configured:
                structlog.reset_defaults()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop that the daemon uses."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def within_an_hour() -> None:
    """Prevent the hour and the day from ending within a test that stays within its waits."""
    await far_from_the_hour()


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> StrictTypes:
    """The output of mypy --strict for a file."""
    return strict_types(tmp_path_factory.mktemp("mypy"))


@pytest.fixture
def fresh_seed() -> int:
    """A new seed in each run; the head of pytest's output and a failed test show it."""
    seed = int(os.environ[_FRESH])
    sys.stdout.write(f"{_FRESH}={seed}\n")  # captured, so shown only if the test failed
    return seed


@pytest.fixture(scope="session")
def server() -> Iterator[Server | ExternalServer]:
    """The server that all tests share: a test must not restart it."""
    if url := os.environ.get("INBOXD_TEST_DSN"):
        yield ExternalServer(url)
        return
    with temporary_server() as embedded:
        yield embedded


@pytest.fixture(scope="session")
def rabbitmq_of_all() -> "Iterator[RabbitMQServer]":
    """The RabbitMQ that all tests share: it takes seconds to start, and much memory."""
    from tests.support.rabbitmq import rabbitmq_server  # noqa: PLC0415 - few need its client

    with rabbitmq_server() as running:
        yield running


@pytest.fixture
def rabbitmq(rabbitmq_of_all: "RabbitMQServer") -> "RabbitMQServer":
    """A running RabbitMQ; a test must use queue names of its own."""
    rabbitmq_of_all.revive()
    return rabbitmq_of_all


@pytest.fixture(scope="session")
def one_nats() -> None:
    """Marks tests whose module starts NATS: one server at a time."""


@pytest.fixture(scope="session")
def one_kafka() -> None:
    """Marks tests whose module starts a mock of Kafka: one at a time."""


@pytest.fixture(scope="session")
def template(server: Server | ExternalServer) -> Iterator[Database]:
    """A migrated database without connections."""
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
def all_days(database: Database) -> None:
    """Give the test's database as many partitions as a migration creates."""
    with psycopg.connect(database.dsn) as connection:
        connection.execute("select inboxd.make_partitions(14)")


@pytest.fixture
def restartable_server() -> Iterator[Server]:
    """An embedded server of the test's own, to restart, stop and kill."""
    with temporary_server() as embedded:
        yield embedded


@pytest.fixture
def restartable_database(restartable_server: Server) -> Database:
    """A migrated database on `restartable_server`, dropped with it."""
    return create_migrated(restartable_server)


@pytest.fixture
def start_worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers on `restartable_database`, if the test uses that, or else on `database`."""
    restartable = "restartable_database" in request.fixturenames
    target = request.getfixturevalue("restartable_database" if restartable else "database")
    forked = request.node.get_closest_marker("own_interpreter") is None
    workers: list[Worker] = []

    with way_to(target.dsn) as way:

        async def start(
            config: Config | None = None, *, ready: bool = True, output: int | None = None
        ) -> Worker:
            worker = Worker(tmp_path, way.dsn, way.over(config), forked=forked, output=output)
            workers.append(worker)
            if ready:
                await worker.ready()
            return worker

        yield start
        for worker in workers:
            worker.kill()
            # Captured, so shown only if the test failed.
            sys.stdout.write(f"--- {worker.log.name}\n{worker.output()}\n")
