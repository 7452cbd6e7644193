"""A connection to RabbitMQ with one channel; every wait fails when channel or connection end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio
from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.exceptions import PAMQPException
from pamqp.heartbeat import Heartbeat

from inboxd.brokers.rabbitmq import amqp
from inboxd.errors import BrokerUnavailable
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Methods that answer no call; handed over unparsed, since each message causes some.
_UNASKED = frozenset(
    each.index
    for each in (
        commands.Basic.Ack,
        commands.Basic.Cancel,
        commands.Basic.Deliver,
        commands.Basic.Nack,
        commands.Basic.Return,
    )
)
_HEARTBEAT = 20  # seconds, unless the server asks for less
_BEATS = 2  # our heartbeats in each such interval
_FRAME_MAX = 131_072  # bytes; RabbitMQ's default
_LEAST_FRAME_MAX = 4096
_NO_LINGER = struct.pack("ii", 1, 0)
_CLOSE_SECONDS = 1.0
_UNREADABLE = (ValueError, LookupError, struct.error, PAMQPException)

# Handles a frame of the channel: its kind, the index of a method, and its payload.
Take = Callable[[int, int, bytes], None]


class AmqpClosed(Exception):
    """The server closed the AMQP channel, because of sent data."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


class AmqpConnection(asyncio.Protocol):
    """One connection; `take` receives the channel's frames that answer no call."""

    def __init__(self, where: str, remedies: Mapping[int, str], patience: float) -> None:
        """where: begins each error; remedies: by error codes; patience: seconds for each answer."""
        self.take: Take = lambda _kind, _index, _payload: None
        self.frame_max = _LEAST_FRAME_MAX
        self._where, self._remedies, self._patience = where, remedies, patience
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._ended: Exception | None = None
        self._promises = set[asyncio.Future[Any]]()
        self._answers = deque[asyncio.Future[Frame]]()
        self._greeting: asyncio.Future[Frame] = self.promise()
        self._paused = False
        self._resumed: asyncio.Future[None] | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._silent = 0  # beats since the last received data

    # ------------------------------------------------------------------ sending

    def check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def send(self, data: bytes) -> None:
        """Send data behind earlier data. Raises the error that ended the channel or connection."""
        self.check()
        self._write(data)

    async def writable(self) -> None:
        """Wait until the server has taken nearly all sent data."""
        self.check()
        if self._paused:
            self._resumed = self.promise()
            await self._resumed

    async def call(self, method: Frame | bytes, channel: int = amqp.CHANNEL) -> Frame:
        """Send a method and wait for its answer. Raises AmqpClosed or BrokerUnavailable."""
        answer: asyncio.Future[Frame] = self.promise()
        self._answers.append(answer)
        self._write(method if isinstance(method, bytes) else frame.marshal(method, channel))
        try:
            with anyio.fail_after(self._patience):
                return await answer
        except TimeoutError:
            error = self.unavailable(f"did not answer within {self._patience:g} s")
            self._lose(error)
            raise error from None

    async def open_channel(self) -> None:
        if isinstance(self._ended, AmqpClosed):
            self._ended = None
        await self.call(commands.Channel.Open())

    def promise(self) -> asyncio.Future[Any]:
        """A future that fails when channel or connection end. Raises if either has ended."""
        self.check()
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._promises.add(made)
        made.add_done_callback(self._kept)
        return made

    def unavailable(self, what: str) -> BrokerUnavailable:
        """The error for this server; `what` continues a sentence that begins with its name."""
        return BrokerUnavailable(f"{self._where} {what}.")

    # ------------------------------------------------------------------ begin and end

    async def greeting(self) -> None:
        try:
            start = cast("commands.Connection.Start", await self._greeting)
        except BrokerUnavailable as error:
            raise BrokerUnavailable(
                f"{error} Check that this is the port of AMQP, and tls, tls_cert and tls_key."
            ) from None
        if "PLAIN" not in start.mechanisms.split():
            raise self.unavailable(f"offers no login by password, only by {start.mechanisms}")

    async def log_in(self, start_ok: commands.Connection.StartOk, virtual_host: str) -> None:
        tune = cast("commands.Connection.Tune", await self.call(start_ok, 0))
        self.frame_max = min(tune.frame_max or _FRAME_MAX, _FRAME_MAX)
        heartbeat = min(tune.heartbeat or _HEARTBEAT, _HEARTBEAT)
        agreed = commands.Connection.TuneOk(tune.channel_max, self.frame_max, heartbeat)
        self.send(frame.marshal(agreed, 0))
        self.beat(heartbeat / _BEATS)
        await self.call(commands.Connection.Open(virtual_host), 0)
        await self.open_channel()

    def beat(self, every: float) -> None:
        """Send a heartbeat now and after each interval; a silent server is lost."""
        self._silent += 1
        if self._silent > 2 * _BEATS:
            self._lose(self.unavailable("has sent nothing for two heartbeats"))
            return
        self._write(frame.marshal(Heartbeat(), 0))
        self._beat = asyncio.get_running_loop().call_later(every, self.beat, every)

    async def close(self) -> None:
        """Close in the way of AMQP, so that all sent data arrives; it takes 1 s at most."""
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self.call(commands.Connection.Close(200, "", 0, 0), 0)
        except (BrokerUnavailable, AmqpClosed):
            pass  # already ended
        finally:
            self.abort()

    def abort(self) -> None:
        self._lose(self.unavailable("is not connected any more"))

    def _lose(self, error: BrokerUnavailable) -> None:
        if self._transport is not None and not self._transport.is_closing():
            # Else the system would still send its buffered data.
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()
        self._end(error)

    def _end(self, error: Exception) -> None:
        """Fail all waits; the end of the connection overrides the end of the channel."""
        if self._ended is None or isinstance(self._ended, AmqpClosed):
            self._ended = error
        self._answers.clear()
        for promise in tuple(self._promises):
            if not promise.done():
                promise.set_exception(error)
        if self._beat is not None and not isinstance(error, AmqpClosed):
            self._beat.cancel()

    def _write(self, data: bytes) -> None:
        cast("asyncio.Transport", self._transport).write(data)

    def _kept(self, promise: asyncio.Future[Any]) -> None:
        self._promises.discard(promise)
        if not promise.cancelled():
            promise.exception()  # marked as read, so that asyncio does not log it

    # ------------------------------------------------------------------ receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._answers.append(self._greeting)
        self._write(b"AMQP\0\0\x09\x01")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(self.unavailable(f"closed the connection{_why(exc)}"))

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        try:
            while at + amqp.OVERHEAD <= size:
                kind, channel, length = amqp.FRAME.unpack_from(data, at)
                start, stop = at + amqp.HEAD, at + amqp.HEAD + length
                if length + amqp.OVERHEAD > self.frame_max:
                    raise ValueError(length)
                if stop >= size:
                    break
                if data[stop] != amqp.END:
                    raise ValueError(data[stop])
                at = stop + 1
                self._take(kind, channel, data[start:stop])
        except _UNREADABLE:
            self._lose(self.unavailable("does not speak AMQP 0.9.1"))
        self._rest = data[at:]

    def _take(self, kind: int, channel: int, payload: bytes) -> None:
        index = int.from_bytes(payload[:4]) if kind == amqp.METHOD else 0
        if kind == amqp.HEARTBEAT or self._ended is not None:
            return
        if channel != 0 and (kind != amqp.METHOD or index in _UNASKED):
            self.take(kind, index, payload)
            return
        method = commands.INDEX_MAPPING[index]()
        method.unmarshal(payload[4:])
        match method:
            case commands.Channel.Close():
                self._write(frame.marshal(commands.Channel.CloseOk(), channel))
                self._end(AmqpClosed(method.reply_code or 0, method.reply_text))
            case commands.Connection.Close():
                self._write(frame.marshal(commands.Connection.CloseOk(), 0))
                self._lose(self._closed(method.reply_code or 0, method.reply_text))
            case commands.Connection.Blocked():
                _log.warning("RabbitMQ takes no messages", server=self._where, why=method.reason)
            case commands.Connection.Unblocked():
                _log.info("RabbitMQ takes messages again", server=self._where)
            case _ if self._answers:
                answer = self._answers.popleft()
                if not answer.done():  # else its caller no longer waits
                    answer.set_result(method)

    def _closed(self, code: int, text: str) -> BrokerUnavailable:
        remedy = self._remedies.get(code)
        return self.unavailable(
            f"closed the connection ({text})" + (f": {remedy}" if remedy else "")
        )


def _why(error: Exception | None) -> str:
    if isinstance(error, ssl.SSLError):
        return f" ({error.reason or 'TLS failed'})"
    if isinstance(error, OSError):
        return f" ({error.strerror or error})"
    return "" if error is None else f" ({type(error).__name__})"
