"""The screens and the admin API that a process hosts.

In an outage requests are answered 503; at a stop the requests under way are answered. All processes
of a supervisor serve on one shared socket. Without sign-in it listens only on loopback, also on an
inherited socket. A slow head or body ends with a 408. Known limit: a reload takes over tokens and
users; the certificate and all other settings need a restart.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import anyio

from inboxd.admin.api import TIMEOUT, AdminApi
from inboxd.admin.screens.access.gate import Gate
from inboxd.admin.screens.application import SESSIONS, STATEMENT_TIMEOUT, Screens
from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.server import HealthPart
from inboxd.admin.site import AdminSite
from inboxd.admin.tokens import Tokens
from inboxd.daemon import sockets
from inboxd.daemon.process import Process
from inboxd.errors import SettingsError
from inboxd.inbound.certificate import tls
from inboxd.inbound.listener import listen
from inboxd.settings import InboundHttp, Settings
from inboxd.settings.values import is_loopback
from inboxd.store.operator_sessions import open_looks
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# A browser uses up to six; idle connections are closed first.
_MOST_CONNECTIONS = 256
# Requests are small, and a client that waits for a slow one holds a connection.
_HEADER_TIMEOUT, _BODY_TIMEOUT = timedelta(seconds=5), timedelta(seconds=10)


class HostedAdmin:
    def __init__(self, process: Process, spool: HostSpool | None = None) -> None:
        """Raises SettingsError. spool: of the receiver that the same process hosts."""
        self._process, self._spool = process, spool
        own = process.settings.admin
        tls(own.certificate, own.private_key, "admin")
        self._bounds = InboundHttp(
            certificate=own.certificate,
            private_key=own.private_key,
            max_connections=_MOST_CONNECTIONS,
            header_timeout=_HEADER_TIMEOUT,
            body_timeout=_BODY_TIMEOUT,
        )
        tokens = Tokens(own.tokens, own.trusted_proxies)
        self._api = AdminApi(process.settings, tokens)
        self._gate = Gate(own, tokens)
        self._site: AdminSite | None = None
        self._stop = anyio.Event()

    def ready(self) -> Sequence[HealthPart]:
        """Always ready: it serves people, and the process works without it, too."""
        return [HealthPart("admin", ok=True)]

    def drain(self) -> Mapping[str, object]:
        self._stop.set()
        return {"admin_requests": self._site.under_way if self._site else 0}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        """Read tokens and users again, with the tokens' files; other settings need a restart."""
        tokens = Tokens(new.admin.tokens, self._process.settings.admin.trusted_proxies)
        users = self._gate.prepare(new.admin)

        def reload(_: Settings) -> None:
            self._api.reload(tokens)
            self._gate.reload(new.admin, tokens, users)

        return reload

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until drained. Raises SettingsError."""
        settings = self._process.settings
        own = self._process.listeners[sockets.ADMIN]
        if settings.admin.open_role is not None:
            _refuse_remote(own)
        most = min(TIMEOUT, settings.worker.drain_timeout.total_seconds())
        scheme = "http" if self._bounds.certificate is None else "https"
        at = [sockets.url(each).replace("http", scheme, 1) for each in own]
        async with (
            open_looks(settings.database, "screens", SESSIONS, STATEMENT_TIMEOUT) as looks,
            anyio.create_task_group() as group,
        ):
            screens = Screens(settings, looks, self._gate, SCREENS, self._spool).application()
            self._site = AdminSite(settings.admin, self._api.application(), screens)
            listener = await group.start(partial(listen, self._bounds, self._site, sockets=own))
            _log.info("serving the screens and the admin API", at=at, path=settings.admin.path)
            on_ready()
            await self._stop.wait()
            await listener.drain(most)


def _refuse_remote(listeners: Sequence[socket.socket]) -> None:
    """Refuse sockets that other machines can reach, whatever `host` is. Raises SettingsError."""
    for each in listeners:
        name = each.getsockname()
        if not (isinstance(name, tuple) and is_loopback(name[0])):
            raise SettingsError(
                f"[admin]: the inherited socket {sockets.url(each)} can be reached from elsewhere, "
                "and no sign-in is set up; add users, proxy, oidc or tokens, or let it listen on "
                "127.0.0.1"
            )
