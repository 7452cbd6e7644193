"""PgBouncer in transaction mode, between the processes that a test starts and their server.

Owns the way to a database: straight, or with INBOXD_TEST_POOLER set through a PgBouncer, and the
settings that a worker needs there. Promises: each PgBouncer is one test's (or module's) own, runs
without privileges, and ends with its owner, SIGKILL included; users keep their names behind it.
Known limits: what listens or keeps something in a session cannot go this way (mark `direct`); a
worker that a test sends through a proxy of its own passes PgBouncer by; a test is skipped where
PgBouncer is missing (Debian: `apt install pgbouncer`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import pytest

from tests.support.databases import shared_folder
from tests.support.guarded import guarded, installed
from tests.support.ports import held_port
from tests.support.worker import Config

# Whether the whole run goes through PgBouncer: `make test-pooler`.
EVERYWHERE = bool(os.environ.get("INBOXD_TEST_POOLER"))

# Connections that PgBouncer keeps to a database: few, so that its clients take turns on each.
SESSIONS = 10

# What a worker must be told behind a pooler in transaction mode.
TRANSACTIONS_ONLY: Config = {
    "database": {"transaction_pooler": True},
    "wakeups": {"mode": "off"},
    "worker": {"poll_interval": "200ms"},
}

# An outage is over for PgBouncer when it is over; nobody is favoured by being the last one.
_CONFIG = """
[databases]
* = host={host} port={port} auth_user={user}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {users}
default_pool_size = {sessions}
max_client_conn = 500
server_login_retry = 0.2
server_round_robin = 1
"""


@dataclass(frozen=True)
class Way:
    """How processes of the product reach a database, and what they must be told for it."""

    dsn: str
    config: Config = field(default_factory=dict)

    def over(self, config: Config | None) -> dict[str, dict[str, Any]]:
        """What this way needs, laid over a test's settings: without wake-ups it must poll."""
        given = config or {}
        return {
            name: {**given.get(name, {}), **self.config.get(name, {})}
            for name in {**given, **self.config}
        }


@contextmanager
def way_to(dsn: str) -> Iterator[Way]:
    """The way of this run: straight, or through a PgBouncer of the caller's own."""
    if not EVERYWHERE:
        yield Way(dsn)
        return
    with pgbouncer(dsn) as way:
        yield way


@contextmanager
def pgbouncer(dsn: str) -> Iterator[Way]:
    """A PgBouncer before the server of `dsn`, and the way through it to the same database."""
    parts = urlsplit(dsn)
    with held_port() as held, shared_folder() as folder:
        listen = held.getsockname()[1]
        users = folder / "users"
        users.write_text(f'"{parts.username}" "{unquote(parts.password or "")}"\n')
        settings = folder / "pgbouncer.ini"
        settings.write_text(
            _CONFIG.format(
                host=parts.hostname,
                port=parts.port or 5432,
                user=parts.username,
                listen=listen,
                users=users,
                sessions=SESSIONS,
            )
        )
        program = installed("pgbouncer")
        if program is None:
            pytest.skip("PgBouncer is not installed: apt install pgbouncer")
        command = [program, *(["-u", "nobody"] if os.geteuid() == 0 else []), str(settings)]
        with guarded(command, listen, folder / "log"):
            through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{listen}")
            yield Way(urlunsplit(through), TRANSACTIONS_ONLY)
