"""A receiver as a process, with a durable server, and its senders."""

import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest

from inboxd.embedded import Server
from tests.support import Config, Database, create, create_migrated, drop, temporary_server
from tests.support.ports import held_port
from tests.support.receiver import TOPIC, MakeProvider, Receiver, StartReceiver, port_of
from tests.support.sender import Provider


@pytest.fixture(scope="session")
def durable_server() -> Iterator[Server]:
    """A server on a disk, with fsync. A test may stop it, and must leave it running."""
    with temporary_server(durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def durable_template(durable_server: Server) -> Database:
    """A migrated database on that server without connections, as a template."""
    with _hasty(durable_server):
        return create_migrated(durable_server)


@pytest.fixture
def inbox(durable_server: Server, durable_template: Database) -> Iterator[Database]:
    """A migrated database for one test, with the topic."""
    with _hasty(durable_server):
        fresh = create(durable_server, durable_template.name)
    anyio.run(fresh.execute, TOPIC)
    yield fresh
    with _hasty(durable_server):
        drop(durable_server, fresh)


@contextmanager
def _hasty(server: Server) -> Iterator[None]:
    """Switches fsync off: creating or dropping a database writes a thousand files."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for value in ("off", "on"):
            connection.execute(f"alter system set fsync = {value}".encode())
            connection.execute("select pg_reload_conf()")
            while connection.execute("show fsync").fetchall() != [(value,)]:
                pass  # the session reads the setting between two statements
            if value == "off":
                yield


@pytest.fixture
def start_receiver(inbox: Database, tmp_path: Path) -> Iterator[StartReceiver]:
    """Starts receivers on the test's database."""
    receivers: list[Receiver] = []
    with ExitStack() as stack:

        async def start(
            *,
            http: Mapping[str, Any] | None = None,
            source: Mapping[str, Any] | None = None,
            config: Config | None = None,
            spool: Mapping[str, Any] | None = None,
            port: int | None = None,
            dsn: str | None = None,
            arguments: Sequence[str] = (),
            ready: bool = True,
        ) -> Receiver:
            receiver = Receiver(
                tmp_path,
                dsn or inbox.dsn,
                port or port_of(stack.enter_context(held_port())),
                http=http or {},
                source=source or {},
                config=config or {},
                spool=spool,
                arguments=arguments,
                forked=not arguments,  # a supervisor starts a command line, not a fork
            )
            receivers.append(receiver)
            if ready:
                await receiver.ready()
            return receiver

        yield start
        for receiver in receivers:
            receiver.kill()
            # Captured by pytest, which shows it only for a failed test.
            sys.stdout.write(f"--- {receiver.log.name}\n{receiver.output()}\n")


@pytest.fixture
async def provider_of() -> AsyncIterator[MakeProvider]:
    """Makes providers, and closes their connections at the end."""
    made: list[Provider] = []

    def make(receiver: Receiver, **changes: Any) -> Provider:
        made.append(receiver.provider(**changes))
        return made[-1]

    yield make
    for provider in made:
        provider.close()
    await anyio.lowlevel.checkpoint()
