"""The plugin's own fixtures, on the server that all of the project's tests share."""

from collections.abc import Iterator

import pytest
import structlog

from inboxd.embedded import Server
from inboxd.testing import TestServer
from tests.support import ExternalServer


@pytest.fixture(scope="session")
def inboxd_server(server: Server | ExternalServer) -> Iterator[TestServer]:
    shared = TestServer(server.dsn, server.dsn(), own=isinstance(server, Server))
    yield shared
    shared.close()


@pytest.fixture
def fresh_log() -> Iterator[None]:
    """Nobody has configured structlog: capture_logs of another test leaves it as if one had."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
