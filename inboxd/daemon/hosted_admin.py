"""The admin API that a process hosts.

Promises: a database that is away neither keeps it from starting nor ends it: requests are answered
503; at a stop it accepts nothing more, and answers what is under way. Of several processes under a
supervisor each serves on the one socket that they share.
Known limit: its settings are taken over by a restart alone.
*See:* `daemon/process.py`, which hosts it; `admin/api.py`, one request.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio

from inboxd.admin.api import TIMEOUT, AdminApi
from inboxd.admin.server import HealthPart, serve
from inboxd.admin.tokens import Tokens
from inboxd.daemon import sockets
from inboxd.daemon.process import Process
from inboxd.inbound.certificate import tls
from inboxd.settings import Settings
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# More than may be answered at once: who waits has a connection too.
_MOST_CONNECTIONS = 64


class HostedAdmin:
    """The admin API of one process."""

    def __init__(self, process: Process) -> None:
        """Read tokens and certificate. Raises SettingsError."""
        self._process = process
        own = process.settings.admin
        self._tls = tls(own.certificate, own.private_key, "admin")
        self._api = AdminApi(process.settings, Tokens(own.tokens))
        self._stop = anyio.Event()

    def ready(self) -> Sequence[HealthPart]:
        """What it does is for people: a process without it works as well."""
        return [HealthPart("admin", ok=True)]

    def drain(self) -> Mapping[str, object]:
        """Accept nothing more, answer what is under way."""
        self._stop.set()
        return {"admin_requests": self._api.under_way}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:  # noqa: ARG002 - as of programs
        """Take over nothing."""
        return lambda _: None

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until drained."""
        own = self._process.listeners[sockets.ADMIN]
        most = min(TIMEOUT, self._process.settings.worker.drain_timeout.total_seconds())
        answer = partial(
            serve,
            own,
            self._api.application(),
            tls=self._tls,
            most_connections=_MOST_CONNECTIONS,
            last_answers=max(1, int(most)),
        )
        async with anyio.create_task_group() as group:
            await group.start(answer)
            scheme = "https" if self._tls else "http"
            at = [sockets.url(each).replace("http", scheme, 1) for each in own]
            _log.info("serving the admin API", at=at)
            on_ready()
            await self._stop.wait()
            group.cancel_scope.cancel()
