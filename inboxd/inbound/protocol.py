"""One connection of the receiver: uvicorn's httptools protocol, with bounds on all input.

Promises, in addition to uvicorn's:

- a head has at most 32 KiB and 100 lines (431), and arrives within the header timeout (408); the
whole body arrives within the body timeout (408). One sweep checks all connections, so both times
may be off by its period. A connection that has sent nothing is closed without an answer: the client
would take it for the answer to its next request;
- a request that the parser refuses is answered 400, or not at all if an earlier request of the
connection still waits. The parser (httptools, strict) refuses Content-Length beside
Transfer-Encoding, a repeated Content-Length, folded headers, and a lone CR or LF. This module
refuses each `Transfer-Encoding` except `chunked`, any in HTTP/1.0, other versions, and a chunked
body with more framing than content;
- trailers are dropped: they were missing when the request was authenticated;
- an answer before the end of the body says `Connection: close`. The writing side is shut, and input
is dropped, up to `_LINGER_BYTES` and `_LINGER_SECONDS`: the client sees the answer and not a reset.
TLS cannot shut the writing side alone: there the connection is closed after that time;
- at most 16 requests wait behind the running one (pipelining); the connection ends after them;
- a client that shuts its writing side after the request gets its answer;
- an upgrade is ignored (Java's client offers h2c with each first request), CONNECT is refused.

A request that is complete after one read goes to the application's `take`, which saves a third of
the time; other requests go through ASGI.
"""

import asyncio
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from inboxd.inbound.backpressure import lags
from inboxd.inbound.fast_path import Take, WholeRequest, path_of
from inboxd.inbound.state import (
    BAD,
    BODY_TOO_LATE,
    HEAD_TOO_LARGE,
    HEAD_TOO_LATE,
    NOT_READ,
    SILENT,
    TOO_MUCH,
    Refused,
    Shared,
    problem,
)
from inboxd.inbound.transport import Wire
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_HEAD_BYTES = 32 * 1024
_HEAD_LINES = 100
_VERSIONS = ("1.1", "1.0")
_PIPELINED = 16
# Chunked bodies: maximum bytes of framing, and additional framing per byte of content.
_FRAMING_BYTES = 64 * 1024
_OVERHEAD = 8
# Limits for input after the answer: bytes that are on the way or in buffers of sockets.
_LINGER_BYTES = 16 * 1024 * 1024
_LINGER_SECONDS = 2.0

_NEVER = float("inf")
# Progress of a request: nothing or all of it has arrived, a part of its head, its head. _LINGER:
# the connection is ending.
_NONE, _HEAD, _BODY, _LINGER = range(4)


class InboundConnection(HttpToolsProtocol):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.config, shared.state, {})
        self._shared = shared
        self._socket: asyncio.Transport | None = None
        self._wire: Wire
        self._made = False
        self._stage = _NONE
        # Time at which the sweep must act on this connection.
        self.deadline = _NEVER
        # Time when the last request ended.
        self.idle_since = 0.0
        # Bytes of the incoming request: before the last read, and in it.
        self._before, self._size = 0, 0
        self._content = 0
        self._persists = True
        self._refusal = BAD
        # The body of a request that may be complete after this read; None: the application reads
        # it.
        self._parts: list[bytes] | None = None
        # True when no more input is read: the connection ends after its answers.
        self._deaf = False
        self._half_closed = False
        self._left = _LINGER_BYTES

    # ------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made = True
        self._socket = cast("asyncio.Transport", transport)
        self._wire = Wire(self._socket, self._linger, self._is_closing)
        super().connection_made(cast("asyncio.Transport", self._wire))
        self.idle_since = self._shared.now
        self.deadline = self.idle_since + self._shared.header_timeout

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage, self.deadline = _LINGER, _NEVER
        super().connection_lost(exc)
        self._wire.forget()
        self._socket = None
        self._shared.on_lost()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        if self._stage == _NONE and self.is_active and self.scheme == "http":
            self._deaf = self._half_closed = True
            return True
        return None

    @property
    def is_made(self) -> bool:
        return self._made

    @property
    def is_active(self) -> bool:
        """Whether a request waits for its answer."""
        latest = self._latest
        return latest is not None and not latest.response_complete

    @property
    def is_idle(self) -> bool:
        return self._stage == _NONE and not self.is_active

    @property
    def began(self) -> float:
        """When the incoming head or body began to arrive; infinity: none is arriving."""
        if self._stage == _HEAD:
            return self.deadline - self._shared.header_timeout
        return self.deadline - self._shared.body_timeout if self._stage == _BODY else _NEVER

    def is_slow(self, patience: float) -> bool:
        """Whether a head takes `patience` while no earlier request is open, or a body is slow."""
        seconds = self._shared.now - self.began
        if self._stage == _HEAD:
            return seconds >= patience and not self.is_active
        return self._stage == _BODY and lags(self._content, seconds)

    @property
    def address(self) -> str | None:
        return self.client[0] if self.client else None

    def fileno(self) -> int:
        """The descriptor of the socket, -1 if it is closed."""
        if self._socket is None:
            return -1
        return int(self._socket.get_extra_info("socket").fileno())

    @property
    def _latest(self) -> RequestResponseCycle | None:
        return self.cycle

    def _is_closing(self) -> bool:
        return self._stage == _LINGER or self._socket is None or self._socket.is_closing()

    # ------------------------------------------------------------------ what arrives

    def data_received(self, data: bytes) -> None:
        if self._deaf or self._stage == _LINGER:
            self._drop(len(data))
            return
        self._size = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if self._stage != _LINGER:
                self._refuse(self._refusal)
        else:
            if self._parts is not None:
                self._hand_over()
            if self._stage:
                self._before += self._size
                self._judge()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _PIPELINED:
            self._fail(TOO_MUCH)
        super().on_message_begin()
        self._stage = _HEAD
        self.deadline = self._shared.now + self._shared.header_timeout

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= _HEAD_LINES:
            self._fail(HEAD_TOO_LARGE)
        name = name.lower()
        if name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        elif name == b"transfer-encoding" and (
            value.lower() != b"chunked" or self.parser.get_http_version() != "1.1"
        ):
            self._fail(BAD)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if (self._before + self._size > _HEAD_BYTES or self.is_active) and (
            len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            > _HEAD_BYTES
        ):
            self._fail(HEAD_TOO_LARGE)
        if self.parser.get_http_version() not in _VERSIONS:
            self._fail(BAD)
        if self.parser.should_upgrade():
            return
        if self.is_active and not self.cycle.response_started:
            # The answer to the previous request is not the last one.
            self.cycle.default_headers = self._shared.state.default_headers
        self._stage = _BODY
        self._content = 0
        self._persists = self.parser.should_keep_alive()
        self.deadline = self._shared.now + self._shared.body_timeout
        self._parts = []
        if self._shared.take is None or self.is_active or self.expect_100_continue:
            self._hand_over()

    def on_body(self, body: bytes) -> None:
        self._content += len(body)
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._stage != _BODY:
            return  # only the head of an upgrade
        if self._parts is not None:
            take, path = self._shared.take, path_of(self.parser.get_method(), self.url)
            if take is not None and path is not None:
                self._take(take, path, b"".join(self._parts))
                return
            self._hand_over()
        super().on_message_complete()
        self._is_whole()

    def _is_whole(self) -> None:
        self._stage, self._before, self._size = _NONE, 0, 0
        self.deadline = _NEVER
        if self._persists and not self._shared.draining and not self.cycle.response_started:
            self.cycle.default_headers = self._shared.state.default_headers

    def _hand_over(self) -> None:
        parts, self._parts = self._parts or [], None
        super().on_headers_complete()
        # An answer before the end of the body closes the connection.
        self.cycle.default_headers = self._shared.closing_headers
        self.headers = []
        for part in parts:
            super().on_body(part)

    def _take(self, take: Take, path: str, body: bytes) -> None:
        scope = cast("dict[str, Any]", self.scope)
        self._parts, self.headers = None, []
        scope["path"], scope["method"] = path, "POST"
        cycle = WholeRequest(self._shared.closing_headers, self._write, self.on_response_complete)
        self.cycle = cast("RequestResponseCycle", cycle)
        self._is_whole()
        try:
            cycle.give(take, scope, body)
        except Exception:
            _log.exception("the application failed, a request is answered 500")
            cycle.response_started = cycle.response_complete = cycle.disconnected = True
            self._write(problem(500, self._shared.closing_headers), closes=True)
            raise  # to stop the parser

    def _write(self, data: bytes, *, closes: bool) -> None:
        if self._socket is not None:
            self._socket.write(data)
            if closes:
                self._linger()

    def _judge(self) -> None:
        if self._stage == _HEAD and self._before > _HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE)
        elif self._stage == _BODY:
            framing = self._before - self._content
            if framing > _HEAD_BYTES + _FRAMING_BYTES + _OVERHEAD * self._content:
                self._refuse(BAD)

    def _fail(self, refusal: Refused) -> None:
        """Raise, so that the parser stops and `data_received` refuses the request."""
        self._refusal = refusal
        raise ValueError(refusal.reason)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse the request as if it had not offered another protocol."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(BAD)
            return
        kept = [
            b"%b: %b\r\n" % header
            for header in self.headers
            if header[0] not in (b"connection", b"upgrade")
        ]
        version = self.parser.get_http_version().encode()
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(kept))
        self._stage = _NONE
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    # ------------------------------------------------------------------ how it ends

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self._forget_body()
        if self._is_closing():
            return
        if self._deaf:
            self._linger()
            return
        self.flow.resume_reading()
        self.idle_since = self._shared.now
        if self._stage == _NONE:
            self.deadline = self.idle_since + self._shared.keep_alive

    def expire(self) -> None:
        socket = self._socket
        if socket is None:
            return
        if self._stage == _LINGER:
            self.abort()
        elif self.flow.write_paused:
            self._shared.on_refused(NOT_READ.reason)
            self.abort()
        elif self._stage == _HEAD:
            self._refuse(HEAD_TOO_LATE)
        elif self._stage == _BODY:
            self._refuse(BODY_TOO_LATE)
        elif not self.is_active:
            self.close_idle()

    def close_idle(self) -> None:
        if self._latest is None and not self._shared.draining:
            self._shared.on_refused(SILENT.reason)
        self._linger()

    def drain(self) -> None:
        """Announce the end of the connection in its last answer."""
        if self.is_active and not self.cycle.response_started:
            self.cycle.default_headers = self._shared.closing_headers

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def _refuse(self, refusal: Refused) -> None:
        """Refuse the incoming request, after answers that must still be written."""
        self._shared.on_refused(refusal.reason)
        if self.pipeline or (self.is_active and self._stage != _BODY):
            if self._stage == _BODY:
                self.pipeline.popleft()  # the incoming request gets no answer
            self._deaf = True
            self._stage, self.deadline = _NONE, _NEVER
            return
        if self.is_active:
            if self.cycle.response_started:
                self.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if refusal.status is not None and self._socket is not None:
            self._socket.write(problem(refusal.status, self._shared.closing_headers))
        self._linger()

    def _forget_body(self) -> None:
        if isinstance(self.cycle, RequestResponseCycle):
            self.cycle.body = bytearray()

    def _drop(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self.abort()

    def _linger(self) -> None:
        """Close so that the client can first read the answer."""
        socket = self._socket
        if socket is None or self._stage == _LINGER or socket.is_closing():
            return
        whole = self._stage == _NONE
        # No further input: announced by the last request, or by the end of the input.
        is_last = whole and (self._half_closed or not self._persists)
        self._stage = _LINGER
        self._forget_body()
        self.deadline = self._shared.now + _LINGER_SECONDS
        if is_last:
            socket.close()
        elif socket.can_write_eof():
            self.flow.resume_reading()
            socket.write_eof()
        elif whole:
            socket.close()
        else:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Give a client that does not read its answer the body timeout."""
        super().pause_writing()
        self.deadline = min(self.deadline, self._shared.now + self._shared.body_timeout)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stage == _NONE and self.is_active:
            self.deadline = _NEVER
