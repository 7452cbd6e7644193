"""The addresses at which a process listens, by socket name."""

from inboxd.daemon.sockets import ADMIN, HTTP, INBOUND, ListenAddress
from inboxd.settings import Settings


def addresses(
    settings: Settings, *, receives: bool, administers: bool = False
) -> dict[str, ListenAddress]:
    http, inbound, admin = settings.http, settings.inbound.http, settings.admin
    found = {HTTP: ListenAddress("http", http.host, http.port)} if http.enabled else {}
    if receives:
        found[INBOUND] = ListenAddress("inbound.http", inbound.host, inbound.port)
    if administers:
        found[ADMIN] = ListenAddress("admin", admin.host, admin.port)
    return found
