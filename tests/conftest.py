"""Fixtures of all tests: a PostgreSQL server, a fresh database for each test, worker processes.

With INBOXD_TEST_DSN the server is the one it names (a superuser's URL); else an embedded one is
started, once for the whole run. With INBOXD_TEST_POOLER what a test starts reaches the server
through a PgBouncer in transaction mode, while the test itself looks at it directly. Fixtures are
lazy: a test of pure rules starts no server.

In CI (INBOXD_TEST_EVERYTHING) no test skips itself: what it misses is a failure there, while on a
developer's machine the summary says what is missing.

`make test` runs several processes side by side (pytest-xdist), each with a server of its own: most
of the time tests wait, for leases, retries and polls to pass.
"""

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
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
# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")
# The seed of tests that look for what nobody knows yet: another one each time, unless it is given.
_FRESH = "INBOXD_TEST_SEED"
# Heavy servers: who asks for one of a kind is in one process with all others who do, so that a run
# has one of each at a time, however many processes it has. The session's fixture, and the kind.
_ONE_OF_EACH = {"rabbitmq_of_all": "rabbitmq", "one_nats": "nats", "one_kafka": "kafka"}


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start, also where a shell runs this in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Here, before other processes are started, so that all of a run have the same.
    os.environ.setdefault(_FRESH, str(random.randrange(10**6)))


@pytest.fixture
def hang_ups() -> Iterator[None]:
    """A hang-up reaches what the test starts, also under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def pytest_report_header() -> str:
    """The seed of what is drawn anew in each run, to repeat it."""
    return f"fresh seed: {_FRESH}={os.environ[_FRESH]}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Behind a pooler, leave out what cannot go through one, and say why.

    A test's own time limit is scaled as its waits are. Side by side, tests that share what their
    module started stay in one process, and those that wait longest come first, so that none of them
    is left at the end.
    """
    for item in items if EVERYWHERE else ():
        if mark := item.get_closest_marker("direct"):
            item.add_marker(pytest.mark.skip(reason=f"not behind a pooler: {mark.args[0]}"))
    for item in items if PATIENCE != 1 else ():
        item.add_marker(pytest.mark.timeout(patient(seconds_of(item))), append=False)
    if "PYTEST_XDIST_WORKER" in os.environ:
        for item in items:
            if (shared := _shared(item)) is not None:
                # Where `--dist loadgroup` looks for it. The mark of xdist 3.8 does not get there.
                setattr(item, "_id", NodeId.parse(f"{item.nodeid}@{shared}"))  # noqa: B010
        items.sort(key=lambda item: item.path.parent.name not in _WAITING)


def _shared(item: pytest.Item) -> str | None:
    """The name of what this test shares with others of its module, or of the session."""
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


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The loop that the daemon runs on."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def within_an_hour() -> None:
    """Neither the hour nor the day turns in a test that takes no longer than a wait may."""
    await far_from_the_hour()


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> StrictTypes:
    """What mypy --strict prints for a file."""
    return strict_types(tmp_path_factory.mktemp("mypy"))


@pytest.fixture
def fresh_seed() -> int:
    """Another one in each run; the head of pytest's output has it, and a test that fails."""
    seed = int(os.environ[_FRESH])
    sys.stdout.write(f"{_FRESH}={seed}\n")  # captured, and so shown only if the test failed
    return seed


@pytest.fixture(scope="session")
def server() -> Iterator[Server | ExternalServer]:
    """The server that all tests share: none may restart it."""
    if url := os.environ.get("INBOXD_TEST_DSN"):
        yield ExternalServer(url)
        return
    with temporary_server() as embedded:
        yield embedded


@pytest.fixture(scope="session")
def rabbitmq_of_all() -> "Iterator[RabbitMQServer]":
    """The RabbitMQ of all tests: it takes seconds to start, and much memory."""
    from tests.support.rabbitmq import rabbitmq_server  # noqa: PLC0415 - few need its client

    with rabbitmq_server() as running:
        yield running


@pytest.fixture
def rabbitmq(rabbitmq_of_all: "RabbitMQServer") -> "RabbitMQServer":
    """RabbitMQ as a test begins with it: it runs; names of queues are the test's own."""
    rabbitmq_of_all.revive()
    return rabbitmq_of_all


@pytest.fixture(scope="session")
def one_nats() -> None:
    """Of servers of NATS, which modules start, one at a time."""


@pytest.fixture(scope="session")
def one_kafka() -> None:
    """Of mocks of Kafka, which modules start, one at a time."""


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
def all_days(database: Database) -> None:
    """The test's database has as many partitions as a migration makes."""
    with psycopg.connect(database.dsn) as connection:
        connection.execute("select inboxd.make_partitions(14)")


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
            # Captured, and so shown only if the test failed.
            sys.stdout.write(f"--- {worker.log.name}\n{worker.output()}\n")
