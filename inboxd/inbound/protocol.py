"""One connection of the receiver: uvicorn's httptools protocol, bounded whatever arrives.

Owns what a connection may hold and how it ends. Promises, beside what uvicorn does:

- a head has at most 32 KiB and 100 lines (431), and is there within the header timeout (408); the
  body is there within the body timeout, whole (408). One sweep looks at all connections, so both
  may be off by its period. A connection that has said nothing is closed without a word, since an
  answer to nothing would be taken for that of the next request;
- what the parser refuses is answered 400 without details; or just not answered, if an earlier
  request of the connection has its answer still to come. The parser (httptools, strict) refuses
  Content-Length beside Transfer-Encoding, or twice, folded headers, and a CR or LF alone. This
  module refuses another `Transfer-Encoding` than `chunked`, any in HTTP/1.0, other versions than
  1.0 and 1.1, and a chunked body that is framing more than content;
- trailers are not headers: what was not there when the request was authenticated is dropped;
- an answer that comes before the whole body says `Connection: close`. The writing side is shut, and
  what still comes is read and dropped, up to `_LINGER_BYTES` and `_LINGER_SECONDS`: the client
  sees the answer and not a reset. Nothing of the body is kept meanwhile. With TLS the writing side
  cannot be shut alone: what comes is dropped as long, then the connection is closed;
- at most 16 requests wait behind the one that runs (pipelining); the connection ends after them;
- a client that shuts its writing side after the request gets its answer;
- an upgrade is ignored (Java's client offers h2c with each first request), CONNECT is refused.

A request that is there as a whole after one read goes to the application's `take`, if it has one:
without a task, and without messages for its body (`whole.py`). Nearly all requests are like that,
and it saves a third of their time; the others go the way of ASGI.
*See:* `listener.py`, which accepts, sweeps and drains.
"""

import asyncio
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from inboxd.inbound.backpressure import lags
from inboxd.inbound.shared import (
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
from inboxd.inbound.whole import Take, WholeRequest, path_of
from inboxd.inbound.wire import Wire
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_HEAD_BYTES = 32 * 1024
_HEAD_LINES = 100
_VERSIONS = ("1.1", "1.0")
_PIPELINED = 16
# Chunked bodies: bytes that are not content, beside _OVERHEAD for each byte that is.
_FRAMING_BYTES = 64 * 1024
_OVERHEAD = 8
# What a client may still send after its answer: what is on the way, and what sockets buffer.
_LINGER_BYTES = 16 * 1024 * 1024
_LINGER_SECONDS = 2.0

_NEVER = float("inf")
# What of a request has come: nothing or all, a part of its head, its head. And after the end.
_NONE, _HEAD, _BODY, _LINGER = range(4)


class InboundConnection(HttpToolsProtocol):
    """One connection, from its first byte to its end."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.config, shared.state, {})
        self._shared = shared
        self._socket: asyncio.Transport | None = None
        self._wire: Wire
        self._made = False
        self._stage = _NONE
        # When the sweep has something to do here.
        self.deadline = _NEVER
        # Since when nothing has been asked.
        self.idle_since = 0.0
        # Of the request that is coming: bytes on the wire before the last read, and in it.
        self._before, self._size = 0, 0
        self._content = 0
        self._persists = True
        self._refusal = BAD
        # The body of a request that may be whole after this read; None: it is the application's.
        self._parts: list[bytes] | None = None
        # Nothing is read any more: the connection ends when its answers are written.
        self._deaf = False
        self._half_closed = False
        self._left = _LINGER_BYTES

    # ------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self._made = True
        self._socket = cast(asyncio.Transport, transport)
        self._wire = Wire(self._socket, self._linger, self._is_closing)
        super().connection_made(cast(asyncio.Transport, self._wire))
        self.idle_since = self._shared.now
        self.deadline = self.idle_since + self._shared.header_timeout

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application and the listener."""
        self._stage, self.deadline = _LINGER, _NEVER
        super().connection_lost(exc)
        self._wire.forget()
        self._socket = None
        self._shared.on_lost()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """The client will send nothing more: it still gets the answers that it waits for."""
        if self._stage == _NONE and self.is_active and self.scheme == "http":
            self._deaf = self._half_closed = True
            return True
        return None

    @property
    def is_made(self) -> bool:
        """Whether it has ever begun."""
        return self._made

    @property
    def is_active(self) -> bool:
        """Whether a request has its answer still to come."""
        latest = self._latest
        return latest is not None and not latest.response_complete

    @property
    def is_idle(self) -> bool:
        """Whether no part of a request has come, and no answer is to come."""
        return self._stage == _NONE and not self.is_active

    @property
    def began(self) -> float:
        """When the head began that is coming, or the body behind it; never: none is."""
        if self._stage == _HEAD:
            return self.deadline - self._shared.header_timeout
        return self.deadline - self._shared.body_timeout if self._stage == _BODY else _NEVER

    def is_slow(self, patience: float) -> bool:
        """Whether its head takes longer than this, behind no other request; or its body lags."""
        seconds = self._shared.now - self.began
        if self._stage == _HEAD:
            return seconds >= patience and not self.is_active
        return self._stage == _BODY and lags(self._content, seconds)

    @property
    def address(self) -> str | None:
        """Of the other end; None: it has none."""
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
        """Take what was read: parse it, or drop it after the end."""
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
        """The first byte of a request."""
        if len(self.pipeline) >= _PIPELINED:
            self._fail(TOO_MUCH)
        super().on_message_begin()
        self._stage = _HEAD
        self.deadline = self._shared.now + self._shared.header_timeout

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of the head, or of the trailer."""
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
        """The head is whole: the application gets it."""
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
            # The answer before this one is not the last.
            self.cycle.default_headers = self._shared.state.default_headers
        self._stage = _BODY
        self._content = 0
        self._persists = self.parser.should_keep_alive()
        self.deadline = self._shared.now + self._shared.body_timeout
        self._parts = []
        if self._shared.take is None or self.is_active or self.expect_100_continue:
            self._hand_over()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._content += len(body)
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._stage != _BODY:
            return  # the head alone, of an upgrade
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
        """Give the application what has come of a request; the rest comes in messages."""
        parts, self._parts = self._parts or [], None
        super().on_headers_complete()
        # What is answered before the body is there closes the connection.
        self.cycle.default_headers = self._shared.closing_headers
        self.headers = []
        for part in parts:
            super().on_body(part)

    def _take(self, take: Take, path: str, body: bytes) -> None:
        """Give the application all of a request."""
        scope = cast("dict[str, Any]", self.scope)
        self._parts, self.headers = None, []
        scope["path"], scope["method"] = path, "POST"
        cycle = WholeRequest(self._shared.closing_headers, self._write, self.on_response_complete)
        self.cycle = cast(RequestResponseCycle, cycle)
        self._is_whole()
        try:
            cycle.give(take, scope, body)
        except Exception:
            _log.exception("the application failed, a request is answered 500")
            cycle.response_started = cycle.response_complete = cycle.disconnected = True
            self._write(problem(500, self._shared.closing_headers), closes=True)
            raise  # for the parser to stop

    def _write(self, data: bytes, *, closes: bool) -> None:
        if self._socket is not None:
            self._socket.write(data)
            if closes:
                self._linger()

    def _judge(self) -> None:
        """A part of a request has come: is it a part of one that would be taken?"""
        if self._stage == _HEAD and self._before > _HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE)
        elif self._stage == _BODY:
            framing = self._before - self._content
            if framing > _HEAD_BYTES + _FRAMING_BYTES + _OVERHEAD * self._content:
                self._refuse(BAD)

    def _fail(self, refusal: Refused) -> None:
        """Stop the parser."""
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
        """An answer is written: the next one, or wait for a request, or the end."""
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
        """The deadline has passed."""
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
        """End a connection from which nothing is asked."""
        if self._latest is None and not self._shared.draining:
            self._shared.on_refused(SILENT.reason)
        self._linger()

    def drain(self) -> None:
        """Let the last answer that is to come say that it is the last."""
        if self.is_active and not self.cycle.response_started:
            self.cycle.default_headers = self._shared.closing_headers

    def abort(self) -> None:
        """End at once, whatever is on the way."""
        if self._socket is not None:
            self._socket.abort()

    def _refuse(self, refusal: Refused) -> None:
        """Turn the request that is coming away, after the answers that are to come."""
        self._shared.on_refused(refusal.reason)
        if self.pipeline or (self.is_active and self._stage != _BODY):
            if self._stage == _BODY:
                self.pipeline.popleft()  # the one that is coming: it is not answered
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
        """What was read of a body that the application did not want: nobody reads it any more."""
        if isinstance(self.cycle, RequestResponseCycle):
            self.cycle.body = bytearray()

    def _drop(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self.abort()

    def _linger(self) -> None:
        """Close, so that the client sees what was written."""
        socket = self._socket
        if socket is None or self._stage == _LINGER or socket.is_closing():
            return
        whole = self._stage == _NONE
        # The client has said, by its last request or by its end, that nothing more will come.
        said = whole and (self._half_closed or not self._persists)
        self._stage = _LINGER
        self._forget_body()
        self.deadline = self._shared.now + _LINGER_SECONDS
        if said:
            socket.close()
        elif socket.can_write_eof():
            self.flow.resume_reading()
            socket.write_eof()
        elif whole:
            socket.close()
        else:
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        super().pause_writing()
        self.deadline = min(self.deadline, self._shared.now + self._shared.body_timeout)

    def resume_writing(self) -> None:
        """The client reads its answer."""
        super().resume_writing()
        if self._stage == _NONE and self.is_active:
            self.deadline = _NEVER
