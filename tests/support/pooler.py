"""PgBouncer in transaction mode, between the processes that a test starts and their server.

    with pgbouncer(database.dsn) as way:
        worker = Worker(tmp_path, way.dsn, way.over(config))

Owns the way to a database: direct, or with INBOXD_TEST_POOLER through a PgBouncer, and the settings
that a worker needs there. Promises: each PgBouncer belongs to one test (or module), runs without
privileges, and ends with the test's process, even if that gets SIGKILL; users keep their names.
Known limits: a listener, or state in a session, needs a direct connection (mark `direct`); a worker
behind a test's own proxy does not use PgBouncer; a test is skipped where PgBouncer is missing
(Debian: `apt install pgbouncer`).
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

# Whether the whole run uses PgBouncer: `make test-pooler`.
EVERYWHERE = bool(os.environ.get("INBOXD_TEST_POOLER"))

# Connections from PgBouncer to a database: few, so that clients share each.
SESSIONS = 10

# Settings that a worker needs behind a pooler in transaction mode.
TRANSACTIONS_ONLY: Config = {
    "database": {"transaction_pooler": True},
    "wakeups": {"mode": "off"},
    "worker": {"poll_interval": "200ms"},
}

# server_login_retry: PgBouncer notices the end of an outage soon. server_round_robin: it does not
# prefer the connection that was used last.
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
    """The dsn by which inboxd's processes reach a database, and the settings that it needs."""

    dsn: str
    config: Config = field(default_factory=dict)

    def over(self, config: Config | None) -> dict[str, dict[str, Any]]:
        """A test's settings, with those of this way: without wake-ups a worker polls."""
        given = config or {}
        return {
            name: {**given.get(name, {}), **self.config.get(name, {})}
            for name in {**given, **self.config}
        }


@contextmanager
def way_to(dsn: str) -> Iterator[Way]:
    """The way of this run: direct, or through a PgBouncer of the caller's own."""
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
