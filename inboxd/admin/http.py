"""The HTTP server: `/metrics`, `/healthz` and `/readyz`, for machines that look after machines.

Owns the listening socket and the three answers. Promises that the address is bound before the
daemon reports ready, that "address in use" is one clear error, that a cancelled server has
closed its connections within seconds, and that no answer holds a payload.
Known limit: no login and no TLS, so it listens on loopback by default.
*See:* `daemon/health.py`, which gives the answers on health.
"""

import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import anyio
import orjson
import uvicorn
from anyio.abc import TaskStatus
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inboxd.errors import SettingsError
from inboxd.settings import Http
from inboxd.telemetry.metrics import Metrics

# Probes and scrapes come one by one; more connections than this are a mistake or an attack.
_MAX_CONNECTIONS = 64
_SHUTDOWN_SECONDS = 1


class HealthPart(NamedTuple):
    """One thing that health depends on; `detail`: what is wrong, or how it is."""

    name: str
    ok: bool
    detail: str = ""


class Health(Protocol):
    """The state of the daemon; both answer at once, from memory."""

    def live(self) -> Sequence[HealthPart]:
        """Tell whether the process can still work; if not, it should be restarted."""
        ...

    def ready(self) -> Sequence[HealthPart]:
        """Tell whether it works now; if not, a restart would not help."""
        ...


async def serve(
    settings: Http,
    metrics: Metrics,
    health: Health,
    *,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; reports the bound port once connections are accepted.

    Raises `SettingsError` if the address cannot be bound.
    """
    with _bind(settings.host, settings.port) as listener:
        server = _Server(_config(application(metrics, health)))
        async with anyio.create_task_group() as group:
            group.start_soon(_leave_when_cancelled, server)
            # The kernel accepts from here on; the server takes over what it queued.
            task_status.started(listener.getsockname()[1])
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])
            group.cancel_scope.cancel()


def application(metrics: Metrics, health: Health) -> Starlette:
    """Build the application alone, without a socket."""

    async def show_metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), headers={"content-type": content_type})

    routes = [
        Route("/metrics", show_metrics),
        Route("/healthz", _report(health.live)),
        Route("/readyz", _report(health.ready)),
    ]
    paths = [route.path for route in routes]

    async def refuse(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        return _json({"error": _REFUSALS.get(status, "refused"), "paths": paths}, status, headers)

    return Starlette(routes=routes, exception_handlers={HTTPException: refuse})


_REFUSALS = {404: "no such path", 405: "only GET and HEAD are served here"}


def _report(parts_of: Callable[[], Sequence[HealthPart]]) -> Callable[[Request], object]:
    async def report(_: Request) -> Response:
        parts = parts_of()
        ok = all(part.ok for part in parts)
        body = {"ok": ok, "parts": [part._asdict() for part in parts]}
        return _json(body, 200 if ok else 503, {"cache-control": "no-store"})

    return report


def _json(body: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


@contextmanager
def _bind(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on http.host {host!r}, http.port {port}: {error.strerror}; "
            "set http.port to a free one (0 takes any), or http.enabled to false"
        ) from error
    with listener:
        yield listener


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",  # which uvicorn brings along; a few probes a minute need nothing faster
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,  # the daemon's own logging takes uvicorn's lines
        log_level=logging.WARNING,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _leave_when_cancelled(server: uvicorn.Server) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        server.should_exit = True
