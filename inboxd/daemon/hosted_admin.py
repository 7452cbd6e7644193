"""The admin API that a process hosts.

Promises: a database that is away neither keeps it from starting nor ends it: requests are answered
503; at a stop it accepts nothing more, and answers what is under way. Of several processes under a
supervisor each serves on the one socket that they share.
Its connections are bounded as those of webhooks: a slow head or body ends with a 408.
Known limit: a reload takes tokens over; the certificate and all else count from a restart.
*See:* `daemon/process.py`, which hosts it; `admin/api.py`, one request.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import anyio

from inboxd.admin.api import TIMEOUT, AdminApi
from inboxd.admin.server import HealthPart
from inboxd.admin.tokens import Tokens
from inboxd.daemon import sockets
from inboxd.daemon.process import Process
from inboxd.inbound.certificate import tls
from inboxd.inbound.listener import listen
from inboxd.settings import InboundHttp, Settings
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# More than may be answered at once: who waits has a connection too.
_MOST_CONNECTIONS = 64
# Requests are small, and whoever waits for a slow one holds a connection.
_HEADER_TIMEOUT, _BODY_TIMEOUT = timedelta(seconds=5), timedelta(seconds=10)


class HostedAdmin:
    """The admin API of one process."""

    def __init__(self, process: Process) -> None:
        """Read tokens and certificate. Raises SettingsError."""
        self._process = process
        own = process.settings.admin
        tls(own.certificate, own.private_key, "admin")
        self._bounds = InboundHttp(
            certificate=own.certificate,
            private_key=own.private_key,
            max_connections=_MOST_CONNECTIONS,
            header_timeout=_HEADER_TIMEOUT,
            body_timeout=_BODY_TIMEOUT,
        )
        self._api = AdminApi(process.settings, Tokens(own.tokens))
        self._stop = anyio.Event()

    def ready(self) -> Sequence[HealthPart]:
        """What it does is for people: a process without it works as well."""
        return [HealthPart("admin", ok=True)]

    def drain(self) -> Mapping[str, object]:
        """Accept nothing more, answer what is under way."""
        self._stop.set()
        return {"admin_requests": self._api.under_way}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        """Read the tokens again, and their files; nothing else is taken over."""
        tokens = Tokens(new.admin.tokens)
        return lambda _: self._api.take_over(tokens)

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until drained."""
        own = self._process.listeners[sockets.ADMIN]
        most = min(TIMEOUT, self._process.settings.worker.drain_timeout.total_seconds())
        scheme = "http" if self._bounds.certificate is None else "https"
        at = [sockets.url(each).replace("http", scheme, 1) for each in own]
        async with anyio.create_task_group() as group:
            listener = await group.start(
                partial(listen, self._bounds, self._api.application(), sockets=own)
            )
            _log.info("serving the admin API", at=at)
            on_ready()
            await self._stop.wait()
            await listener.drain(most)
