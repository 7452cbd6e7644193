"""Sends HTTP requests to targets, on the connections of one worker.

Promises: whatever a target does, a request ends within the given time, and its answer has at most
the given size; redirects are not followed; only connections are kept between requests. Known
limits: a look-up of a name runs in a thread, which ends when the system gives up; repeatable
methods (GET, HEAD, OPTIONS, PUT, DELETE) are sent once more if a connection, also a new one, ends
before an answer. *See:* `addresses`, `verdict`; `docs/targets.md`; ADR 27.
"""

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
import anyio.to_thread
from aiohttp.abc import AbstractResolver, ResolveResult

from inboxd.errors import TargetRefused, TargetUnreachable
from inboxd.outbound.addresses import Allowed
from inboxd.outbound.headers import checked_headers
from inboxd.outbound.urls import checked_url, place

# Seconds for which an idle connection is kept: shorter than most servers keep it, so that few
# requests meet a connection that was just closed.
_IDLE_SECONDS = 4.0
_MOST_CONNECTIONS, _MOST_PER_HOST = 1000, 200
# Concurrent look-ups of names.
_MOST_LOOK_UPS = 16
_DNS_SECONDS = 10
# aiohttp rounds longer timeouts up to a whole second.
_NOT_ROUNDED = 1e9
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class TargetRequest:
    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    timeout: float = 30.0
    """Seconds from the look-up of the name to the last byte of the answer."""
    most_answer: int = 64 * 1024
    """Bytes of the answer's body that are read."""
    allowed: Allowed = field(default_factory=Allowed)


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    """By lower-case names, as storable text; repeated headers are joined by ", "."""
    body: bytes = field(repr=False)
    cut: bool
    """Whether the body was longer."""
    seconds: float


class TargetClient:
    def __init__(
        self, *, connect_timeout: float = 5.0, context: ssl.SSLContext | None = None
    ) -> None:
        """connect_timeout: seconds; context: for other certificate authorities of TLS."""
        self._connect_timeout = connect_timeout
        self._context = context
        self._closed = False
        # A connection is reused only by requests with the same allowed ranges.
        self._sessions: dict[Allowed, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections: requests in progress fail, and new ones are refused."""
        self._closed = True
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    async def ask(self, request: TargetRequest) -> TargetAnswer:
        """Raises TargetRefused if it may not be sent, and TargetUnreachable without an answer."""
        url = checked_url(request.url)
        headers = checked_headers(request.headers)
        if request.method not in _METHODS:
            raise TargetRefused(
                f"The method {request.method[:20]!r} is not supported: use GET, HEAD, POST, PUT, "
                "PATCH, DELETE or OPTIONS."
            )
        began = monotonic()
        try:
            async with self._session(request.allowed).request(
                request.method,
                url,
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    # Not sock_connect, which starts again for each address of a name.
                    total=request.timeout,
                    connect=self._connect_timeout,
                    ceil_threshold=_NOT_ROUNDED,
                ),
            ) as response:
                body, cut = await _read(response, request.most_answer)
        except TimeoutError as error:
            raise TargetUnreachable(_timed_out(url.host, request, error, began)) from None
        except (aiohttp.ClientError, OSError) as error:
            # Without the cause: its text contains the whole URL, or data of the target.
            raise _judged(error, place(url)) from None
        except ValueError as error:  # an invalid method, header or URL
            raise TargetRefused(f"No request can be sent to {place(url)}: {error}.") from None
        return TargetAnswer(response.status, _joined(response), body, cut, monotonic() - began)

    def _session(self, allowed: Allowed) -> aiohttp.ClientSession:
        found = self._sessions.get(allowed)
        if found is None:
            if self._closed:
                raise TargetUnreachable("This worker stops: it sends no more requests.")
            gate = _Gate(allowed)
            connector = aiohttp.TCPConnector(
                resolver=_Resolver(gate),
                socket_factory=gate.open,
                ssl=True if self._context is None else self._context,
                limit=_MOST_CONNECTIONS,
                limit_per_host=_MOST_PER_HOST,
                keepalive_timeout=_IDLE_SECONDS,
                ttl_dns_cache=_DNS_SECONDS,
            )
            found = self._sessions[allowed] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Content-Type", "Accept-Encoding"),
            )
        return found


class _NotAllowed(OSError):
    """No connection is allowed to any of a name's addresses."""


class _Gate:
    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    def check(self, addresses: Sequence[str]) -> None:
        if not any(self.permits(each) for each in addresses):
            raise _NotAllowed(", ".join(addresses))

    def permits(self, address: str) -> bool:
        return self._allowed.permits(address)

    def open(self, info: tuple[Any, ...]) -> socket.socket:
        """Open the socket for an address: the last check of any address."""
        family, kind, protocol, _, address = info
        self.check([address[0]])
        return socket.socket(family, kind, protocol)


class _Resolver(AbstractResolver):
    """A few threads of its own keep slow name servers from blocking other work."""

    def __init__(self, gate: _Gate) -> None:
        self._gate = gate
        self._threads = anyio.CapacityLimiter(_MOST_LOOK_UPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        look_up = partial(
            socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
        )
        found = await anyio.to_thread.run_sync(
            look_up, limiter=self._threads, abandon_on_cancel=True
        )
        addresses = [(str(place[0]), kind, proto) for kind, _, proto, _, place in found]
        self._gate.check([address for address, _, _ in addresses])
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address, kind, proto in addresses
            if self._gate.permits(address)
        ]

    async def close(self) -> None:
        pass


async def _read(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """The beginning of the body, and whether there is more; the connection is then closed."""
    pieces, size = list[bytes](), 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            response.close()
            return b"".join(pieces)[:most], True
    return b"".join(pieces), False


def _joined(response: aiohttp.ClientResponse) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        lower, text = name.lower(), _text(value)
        headers[lower] = f"{headers[lower]}, {text}" if lower in headers else text
    return headers


def _text(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _timed_out(host: str | None, request: TargetRequest, error: TimeoutError, began: float) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"{host} accepted no connection within {monotonic() - began:.1f} s."
    return f"{host} did not answer within {request.timeout:g} s."


# The library distinguishes these errors only by their messages.
_TOO_MANY = ", or has too many or too long headers"
# Reasons by error, the most specific first; {} is the error's own text.
_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "no address is known for this name"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted: {}"),
    (aiohttp.ClientConnectorError, "the connection failed: {}"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "it closed the connection within its answer"),
    (aiohttp.ClientResponseError, f"its answer is not valid HTTP{_TOO_MANY}"),
    (Exception, "the connection was lost: {}"),
)


def _judged(error: Exception, where: str) -> TargetRefused | TargetUnreachable:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _NotAllowed):
            return TargetRefused(
                f"{where} is at {cause}, which is not of the public internet: to allow it, "
                "add its range to `allow` of its target, of [outbound.http], or of "
                "[outbound.webhooks]."
            )
        cause = getattr(cause, "os_error", None) or cause.__cause__
    if isinstance(error, aiohttp.InvalidURL):
        return TargetRefused(f"{where} is not a valid URL for a request.")
    reason = next(text for kind, text in _REASONS if isinstance(error, kind))
    return TargetUnreachable(f"{where}: {reason.format(_words(error))}.")


def _words(error: Exception) -> str:
    """The text of the system or of TLS; the library's own text may quote the whole URL."""
    wrong = getattr(error, "certificate_error", None)
    if isinstance(wrong, ssl.SSLCertVerificationError):
        return wrong.verify_message
    found = getattr(error, "os_error", error)
    if isinstance(found, ssl.SSLError):
        return found.reason or "TLS failed"
    return str(found.strerror) if isinstance(found, OSError) and found.errno else "no reason given"
