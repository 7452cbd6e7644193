"""The pytest plugin: options, and the fixture `inbox` with its parts.

Promises: a test suite that does not use the fixtures pays only for the import of this module, which
imports nothing but pytest; missing requirements (the server's wheel, a right of the role, a plugin
that cannot be imported) fail the tests that need them, with a remedy, and no other tests. Known
limit: with pytest-xdist each process that needs an embedded server starts its own. *See:*
`template`, the databases; `inbox`, the object that a test gets.
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
    """Add the options of the plugin."""
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
        "Plugins (names of entry points) whose handlers `inbox` runs; empty: all installed ones.",
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
    """The database that is copied for each test; override it to add your own tables.

    It has inboxd's schema, and the tables of the plugins' migrations. Close all connections to it.
    """
    with _explained():
        template = inboxd_server.make_template(request.config.getini("inboxd_plugins"))
    yield template
    inboxd_server.drop(template)


@pytest.fixture
def inboxd_database(inboxd_template: "TestDatabase") -> "Iterator[TestDatabase]":
    """A database of the test's own, a copy of the template; its URL is `.dsn`."""
    # Not `inboxd_server`: a folder may override that after the template was made, or before.
    server = inboxd_template.server
    with _explained():
        database = server.copy(inboxd_template)
    yield database
    server.drop(database)


@pytest.fixture
def inboxd_handlers() -> "Handlers | Sequence[Handlers] | None":
    """The handlers that `inbox` runs, None for installed plugins; override it with `Handlers`."""
    return None


@pytest.fixture
def inboxd_settings() -> Mapping[str, Mapping[str, Any]]:
    """Settings of the worker that `inbox` runs, by section, as in config.toml; override it."""
    return {}


@pytest.fixture
def inboxd_resources() -> Mapping[Any, object]:
    """Fakes, by type, in place of the resources of the plugins' lifespans; override it."""
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
    """An inbox of the test's own: emit, send, drain, travel in time, and inspect rows."""
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
    """Fail the test with the message of an error, without its traceback."""
    from inboxd.errors import InboxdError

    try:
        yield
    except InboxdError as error:
        failed = pytest.fail.Exception(f"{type(error).__name__}: {error}", pytrace=False)
        raise failed from None
