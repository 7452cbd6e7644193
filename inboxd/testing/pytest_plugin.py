"""The pytest plugin: options, and the fixtures `inbox` and what it is made of.

Promises: a test suite that does not use the fixtures pays for the import of this module alone,
which imports nothing but pytest; what is missing (the server's wheel, a right of the role, a plugin
that does not import) fails the tests that need it, with what to do, and no others.
Known limit: with pytest-xdist each process that needs one starts an embedded server of its own.
*See:* `template`, the databases; `inbox`, what a test is given.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from inboxd.api.handlers import Handlers
    from inboxd.registry.registry import Registry
    from inboxd.testing.inbox import TestInbox
    from inboxd.testing.template import TestDatabase, TestServer

_DSN = "INBOXD_TEST_DSN"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which options there are."""
    group = parser.getgroup("inboxd", "inboxd: databases for tests of plugins")
    group.addoption(
        "--inboxd-dsn",
        metavar="DSN",
        help="URL of a PostgreSQL server on which databases for tests are made and dropped, in "
        f"place of an embedded one (or {_DSN}, or inboxd_dsn in pytest's settings).",
    )
    parser.addini("inboxd_dsn", "URL of a PostgreSQL server for tests (see --inboxd-dsn).")
    parser.addini(
        "inboxd_plugins",
        "Plugins (names of entry points) whose handlers `inbox` runs; none: all installed ones.",
        type="args",
        default=[],
    )


@pytest.fixture(scope="session")
def inboxd_server(request: pytest.FixtureRequest) -> "Iterator[TestServer]":
    """The PostgreSQL server for tests: --inboxd-dsn, INBOXD_TEST_DSN, inboxd_dsn; else embedded."""
    from inboxd.testing.template import open_server

    config = request.config
    dsn = config.getoption("--inboxd-dsn") or os.environ.get(_DSN) or config.getini("inboxd_dsn")
    with _explained():
        opened = open_server(dsn or None)
        server = opened.__enter__()
    try:
        yield server
    finally:
        opened.__exit__(None, None, None)


@pytest.fixture(scope="session")
def inboxd_template(
    request: pytest.FixtureRequest, inboxd_server: "TestServer"
) -> "Iterator[TestDatabase]":
    """The database that is copied for each test; override it to put your own tables into it.

    It has inboxd's schema, and what the plugins' migrations make. Leave no connection to it open.
    """
    with _explained():
        template = inboxd_server.make_template(request.config.getini("inboxd_plugins"))
    yield template
    inboxd_server.drop(template)


@pytest.fixture
def inboxd_database(inboxd_template: "TestDatabase") -> "Iterator[TestDatabase]":
    """A database of the test's own, a copy of the template; its URL is `.dsn`."""
    # Not the fixture's: a folder that overrides it may come after the template was made, or before.
    server = inboxd_template.server
    with _explained():
        database = server.copy(inboxd_template)
    yield database
    server.drop(database)


@pytest.fixture
def inboxd_handlers() -> "Handlers | Sequence[Handlers] | None":
    """What `inbox` runs: None for installed plugins; override it to give `Handlers` of your own."""
    return None


@pytest.fixture
def inboxd_settings() -> Mapping[str, Mapping[str, Any]]:
    """Settings of the worker that `inbox` runs, by section, as in config.toml; override it."""
    return {}


@pytest.fixture
def inboxd_resources() -> Mapping[Any, object]:
    """Fakes, by type, in place of what the plugins' lifespans yield; override it."""
    return {}


@pytest.fixture(scope="session")
def _inboxd_plugins(request: pytest.FixtureRequest) -> "Registry":
    from inboxd.registry.plugins import load_plugins

    with _explained():
        return load_plugins(request.config.getini("inboxd_plugins"))


@pytest.fixture
def inbox(
    request: pytest.FixtureRequest,
    inboxd_database: "TestDatabase",
    inboxd_handlers: "Handlers | Sequence[Handlers] | None",
    inboxd_settings: Mapping[str, Mapping[str, Any]],
    inboxd_resources: Mapping[Any, object],
) -> "Iterator[TestInbox]":
    """An inbox of the test's own: emit, send, drain, travel in time, and see what was written."""
    from inboxd.testing.inbox import TestInbox, registry_of

    with _explained():
        if inboxd_handlers is None:
            plugins = request.getfixturevalue("_inboxd_plugins")
        else:
            plugins = registry_of(inboxd_handlers)
        opened = TestInbox(inboxd_database.dsn, plugins, inboxd_settings, inboxd_resources)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def _explained() -> Iterator[None]:
    """What is missing fails the test with a message, without the way to it."""
    from inboxd.errors import InboxdError

    try:
        yield
    except InboxdError as error:
        failed = pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False)
        raise failed from None
