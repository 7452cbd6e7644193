"""Where a process listens, by the names of its sockets.

*See:* `daemon/sockets.py`, which binds or inherits them.
"""

from inboxd.daemon.sockets import HTTP, INBOUND, ListenAddress
from inboxd.settings import Settings


def addresses(settings: Settings, *, receives: bool) -> dict[str, ListenAddress]:
    """The addresses of its HTTP face and, if it receives, of its receiver."""
    http, inbound = settings.http, settings.inbound.http
    found = {HTTP: ListenAddress("http", http.host, http.port)} if http.enabled else {}
    if receives:
        found[INBOUND] = ListenAddress("inbound.http", inbound.host, inbound.port)
    return found
