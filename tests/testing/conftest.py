"""The plugin's own fixtures, on the server that all tests of the project share."""

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
    """Reset structlog: `capture_logs` of another test leaves it configured."""
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
