"""The HTTP server for metrics and health: three pages, few requests, little memory.

Promises: a cancelled server closes its connections within seconds; other connections cannot keep a
probe from its answer: with too many, the oldest idle one is closed, or else the oldest, and each
has a time limit. Known limit: no login and no TLS, so it listens on loopback by default.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import anyio
import orjson
import uvicorn
from anyio.abc import TaskStatus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

# Probes and scrapes come one by one; more connections than this are a mistake or an attack.
_MAX_CONNECTIONS = 256
# For a request to arrive; for a whole connection, since a client may never read its answer; and
# between two checks of the connections. uvicorn has no such limits.
_HEAD_SECONDS, _ALL_SECONDS, _SWEEP_SECONDS = 2.0, 60.0, 0.5
_SHUTDOWN_SECONDS = 1
# At the end, idle connections get half a second: a request may be on its way.
_LAST_LOOKS = 50
_LOOK_SECONDS = 0.01
# The sockets' own backlog, which uvicorn sets again.
_BACKLOG = 4096

Page = Callable[[Request], Awaitable[Response]]


class HealthPart(NamedTuple):
    name: str
    ok: bool
    detail: str = ""


async def serve(
    listeners: Sequence[socket.socket],
    application: Starlette,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    connections = _Connections()
    server = _Server(_config(application, connections))
    async with anyio.create_task_group() as group:
        group.start_soon(_leave_when_cancelled, server, listeners)
        group.start_soon(connections.sweep)
        # The kernel accepts connections already; the server takes them from its queue.
        task_status.started()
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[*listeners])
        group.cancel_scope.cancel()


def pages(metrics: Page, live: Page, ready: Page) -> Starlette:
    routes = [Route("/metrics", metrics), Route("/healthz", live), Route("/readyz", ready)]
    paths = [route.path for route in routes]

    async def refuse(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        return _json({"error": _REFUSALS.get(status, "refused"), "paths": paths}, status, headers)

    return Starlette(routes=routes, exception_handlers={HTTPException: refuse})


_REFUSALS = {404: "no such path", 405: "only GET and HEAD are served here"}


def report(parts: Sequence[HealthPart], *, ok: bool) -> Response:
    body = {"ok": ok, "parts": [part._asdict() for part in parts]}
    return _json(body, 200 if ok else 503, {"cache-control": "no-store"})


def _json(body: object, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def _config(app: Starlette, connections: "_Connections") -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connections.protocol(),
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,  # the daemon's own logging takes uvicorn's lines
        log_level=logging.WARNING,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )


class _Server(uvicorn.Server):
    """The daemon has its own signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _leave_when_cancelled(server: uvicorn.Server, listeners: Sequence[socket.socket]) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await _answer_the_last(server, listeners)
        server.should_exit = True


class _Connections:
    def __init__(self) -> None:
        # Monotonic times: idle since, and open since; the oldest first.
        self._silent: dict[H11Protocol, float] = {}
        self._began: dict[H11Protocol, float] = {}

    def protocol(self) -> type[H11Protocol]:
        """A few probes a minute need no faster parser."""
        connections = self

        class BoundedConnection(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
                super().connection_made(transport)
                connections.begin(self)

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                connections.end(self)

        return BoundedConnection

    def begin(self, connection: H11Protocol) -> None:
        """At the limit, close the oldest idle one first, or else the oldest."""
        if len(self._began) >= _MAX_CONNECTIONS:
            oldest = next((each for each in self._began if _is_silent(each)), None)
            self._abort(oldest or next(iter(self._began)))
        self._began[connection] = self._silent[connection] = time.monotonic()

    def end(self, connection: H11Protocol) -> None:
        self._began.pop(connection, None)
        self._silent.pop(connection, None)

    async def sweep(self) -> None:
        while True:
            await anyio.sleep(_SWEEP_SECONDS)
            now, silent = time.monotonic(), self._silent
            self._silent = {each: silent.get(each, now) for each in self._began if _is_silent(each)}
            late = [each for each, began in self._began.items() if now - began > _ALL_SECONDS]
            quiet = [each for each, since in self._silent.items() if now - since > _HEAD_SECONDS]
            for each in dict.fromkeys((*late, *quiet)):
                self._abort(each)

    def _abort(self, connection: H11Protocol) -> None:
        """An answer that its client has not read is discarded."""
        self.end(connection)
        if _is_silent(connection):
            connection.transport.close()
        else:
            connection.transport.abort()


def _is_silent(connection: H11Protocol) -> bool:
    """It has no complete request whose answer is not sent in full."""
    cycle: Any = connection.cycle  # None before the first request
    if cycle is None:
        return True
    return bool(cycle.response_complete and not connection.transport.get_write_buffer_size())


async def _answer_the_last(server: uvicorn.Server, listeners: Sequence[socket.socket]) -> None:
    """Stop accepting, and first answer what was accepted: uvicorn cuts off idle connections."""
    for each in listeners:
        asyncio.get_running_loop().remove_reader(each)
    await anyio.sleep(_LOOK_SECONDS)  # connections that asyncio has just accepted need its servers
    for accepting in getattr(server, "servers", ()):  # missing before the server has started
        accepting.close()
    for _ in range(_LAST_LOOKS):
        await anyio.sleep(_LOOK_SECONDS)
        if not server.server_state.connections:
            return
