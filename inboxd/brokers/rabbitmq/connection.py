"""A connection to RabbitMQ with one channel: methods out and in, heartbeats, and how it ends.

Owns the socket. Promises: whoever waits for something here is told when channel or connection end;
a server that says nothing for two heartbeats is lost; `abort` drops what was not sent.
*See:* `servers`, which opens it; `publisher` and `consumer`, which take what comes.
"""

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

# What comes without being asked for: it is taken as it is, since some of it comes for each message.
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
_BEATS = 2  # in each of these
_FRAME_MAX = 131_072  # bytes, as RabbitMQ has it itself
_LEAST_FRAME_MAX = 4096
_NO_LINGER = struct.pack("ii", 1, 0)
_CLOSE_SECONDS = 1.0
_UNREADABLE = (ValueError, LookupError, struct.error, PAMQPException)

# Takes what comes on the channel: the kind of AMQP frame, the index of a method, and its content.
Take = Callable[[int, int, bytes], None]


class AmqpClosed(Exception):
    """The server closed the AMQP channel, because of something that was sent on it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


class AmqpConnection(asyncio.Protocol):
    """One connection; `take` is given what comes on its channel and is no answer."""

    def __init__(self, where: str, remedies: Mapping[int, str], patience: float) -> None:
        """`where` begins each message; `remedies` are those for a server's codes.

        patience: seconds that the server gets to answer.
        """
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
        self._silent = 0  # beats since something came

    # ------------------------------------------------------------------ what is asked and sent

    def check(self) -> None:
        """Raise what ended channel or connection, if something did."""
        if self._ended is not None:
            raise self._ended

    def send(self, data: bytes) -> None:
        """Send this behind what was sent before. Raises what ended channel or connection."""
        self.check()
        self._write(data)

    async def writable(self) -> None:
        """Wait until the server has taken nearly all that was sent."""
        self.check()
        if self._paused:
            self._resumed = self.promise()
            await self._resumed

    async def call(self, method: Frame | bytes, channel: int = amqp.CHANNEL) -> Frame:
        """Send this and wait for its answer. Raises AmqpClosed or BrokerUnavailable."""
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
        """Open the channel, for the first time or after it was closed."""
        if isinstance(self._ended, AmqpClosed):
            self._ended = None
        await self.call(commands.Channel.Open())

    def promise(self) -> asyncio.Future[Any]:
        """A future that fails when channel or connection end. Raises what ended them already."""
        self.check()
        made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._promises.add(made)
        made.add_done_callback(self._kept)
        return made

    def unavailable(self, what: str) -> BrokerUnavailable:
        """An error that names this server."""
        return BrokerUnavailable(f"{self._where} {what}.")

    # ------------------------------------------------------------------ how it begins and ends

    async def greeting(self) -> None:
        """Wait for what the server says first. Raises BrokerUnavailable."""
        try:
            start = cast(commands.Connection.Start, await self._greeting)
        except BrokerUnavailable as error:
            raise BrokerUnavailable(
                f"{error} Is it the port of AMQP, and are tls, tls_cert and tls_key right?"
            ) from None
        if "PLAIN" not in start.mechanisms.split():
            raise self.unavailable(f"lets nobody in by a password, but by {start.mechanisms}")

    async def log_in(self, start_ok: commands.Connection.StartOk, virtual_host: str) -> None:
        """Say who we are, agree on sizes and heartbeats, open the virtual host and a channel."""
        tune = cast(commands.Connection.Tune, await self.call(start_ok, 0))
        self.frame_max = min(tune.frame_max or _FRAME_MAX, _FRAME_MAX)
        heartbeat = min(tune.heartbeat or _HEARTBEAT, _HEARTBEAT)
        agreed = commands.Connection.TuneOk(tune.channel_max, self.frame_max, heartbeat)
        self.send(frame.marshal(agreed, 0))
        self.beat(heartbeat / _BEATS)
        await self.call(commands.Connection.Open(virtual_host), 0)
        await self.open_channel()

    def beat(self, every: float) -> None:
        """Show that we live, and see whether the server does, every so often."""
        self._silent += 1
        if self._silent > 2 * _BEATS:
            self._lose(self.unavailable("says nothing any more"))
            return
        self._write(frame.marshal(Heartbeat(), 0))
        self._beat = asyncio.get_running_loop().call_later(every, self.beat, every)

    async def close(self) -> None:
        """Close it as AMQP has it, so that all arrives that was sent; it takes 1 s at most."""
        try:
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self.call(commands.Connection.Close(200, "", 0, 0), 0)
        except (BrokerUnavailable, AmqpClosed):
            pass  # it has ended
        finally:
            self.abort()

    def abort(self) -> None:
        """End it at once: what was not sent is not sent any more."""
        self._lose(self.unavailable("is not connected any more"))

    def _lose(self, error: BrokerUnavailable) -> None:
        """Nothing can be hoped for from this connection any more."""
        if self._transport is not None and not self._transport.is_closing():
            # What the system still holds of what was sent would arrive later, too.
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._transport.abort()
        self._end(error)

    def _end(self, error: Exception) -> None:
        """Tell all who wait that channel or connection have ended; the connection's end counts."""
        if self._ended is None or isinstance(self._ended, AmqpClosed):
            self._ended = error
        self._answers.clear()
        for promise in tuple(self._promises):
            if not promise.done():
                promise.set_exception(error)
        if self._beat is not None and not isinstance(error, AmqpClosed):
            self._beat.cancel()

    def _write(self, data: bytes) -> None:
        cast(asyncio.Transport, self._transport).write(data)

    def _kept(self, promise: asyncio.Future[Any]) -> None:
        self._promises.discard(promise)
        if not promise.cancelled():
            promise.exception()  # whether or not somebody waits for it

    # ------------------------------------------------------------------ what comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the server: it speaks next."""
        self._transport = cast(asyncio.Transport, transport)
        self._answers.append(self._greeting)
        self._write(b"AMQP\0\0\x09\x01")

    def pause_writing(self) -> None:
        """The server does not take what was sent."""
        self._paused = True

    def resume_writing(self) -> None:
        """It has taken nearly all."""
        self._paused = False
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        self._end(self.unavailable(f"closed the connection{_why(exc)}"))

    def data_received(self, data: bytes) -> None:
        """Take the AMQP frames that are there as a whole, and keep the rest."""
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
                if not answer.done():  # nobody waits for it any more
                    answer.set_result(method)

    def _closed(self, code: int, text: str) -> BrokerUnavailable:
        remedy = self._remedies.get(code)
        return self.unavailable(
            f"closed the connection ({text})" + (f": {remedy}" if remedy else "")
        )


def _why(error: Exception | None) -> str:
    """In brackets; nothing: it was closed without an error."""
    if isinstance(error, ssl.SSLError):
        return f" ({error.reason or 'TLS failed'})"
    if isinstance(error, OSError):
        return f" ({error.strerror or error})"
    return "" if error is None else f" ({type(error).__name__})"
