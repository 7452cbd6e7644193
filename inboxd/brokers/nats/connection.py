"""A connection to NATS: nats-py's client, which hands over the messages of one inbox unparsed.

Promises: a lost connection stays lost; `drop` discards unsent data of the system; the password is
not sent without the TLS that the settings demand. nats-py needs several times as long per message
as all other code, so our inbox bypasses it, by names that it has had since 2.9: `_process_msg`,
`_close`, `_connect_command`, and its transport's writer. Known limit: a server that merely allows
TLS counts as one without.
"""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from anyio import CancelScope, lowlevel, move_on_after
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import Error

from inboxd.brokers import causes
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker

_CLOSE_SECONDS = 1.0
# With this option, closing the socket discards the system's unsent data, and sends a reset.
_NO_LINGER = struct.pack("ii", 1, 0)


class TlsDiffers(Error):
    """The server demands TLS and the settings do not, or the reverse."""


class NatsInbox(Protocol):
    """Receives the messages of a connection; called by the reading task, so no method may wait."""

    def arrived(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None, /) -> None:
        """headers: None if the message has none."""

    def forbidden(self, what: str) -> None:
        """The server denies the user a permission, which `what` names in the server's words."""

    def lost(self) -> None: ...


class NatsConnection(Client):
    def __init__(self, broker_name: str, broker: Broker, server: str) -> None:
        super().__init__()
        self.patience = broker.connect_timeout.total_seconds()
        """Time limit for the server's answer to a request, in seconds."""
        self.inbox = self.new_inbox()
        """The prefix of our own subjects."""
        self.trouble: Exception | None = None
        """The last error that nats-py reported outside its calls."""
        # The server's address, without a user and password in front of it.
        self.place = f"broker {broker_name!r} (nats at {server.rpartition('@')[2]})"
        self._encrypted = broker.tls
        self._listener: NatsInbox | None = None
        self._our_sid = 0
        self._lost = False
        # nats-py does not stop waiting for an answer when the connection is lost.
        self._waiting = set[CancelScope]()

    def unavailable(self, why: str) -> BrokerUnavailable:
        return BrokerUnavailable(f"{self.place}: {why}")

    def check(self) -> None:
        """Raise BrokerUnavailable if the connection is lost."""
        if self._lost:
            cause = "it was closed" if self.trouble is None else cause_of(self.trouble)
            raise self.unavailable(f"the connection is lost ({cause}).")

    async def listen(self, listener: NatsInbox) -> None:
        """Hand over the messages of our inbox from now on. Raises BrokerUnavailable."""
        self._listener, self.trouble = listener, None
        try:
            self._our_sid = (await self.subscribe(f"{self.inbox}.*"))._id  # noqa: SLF001
            with CancelScope() as scope, self._ended_by_loss(scope):
                await self.flush(timeout=max(1, round(self.patience)))
            self.check()
        except (Error, OSError) as error:
            raise self.unavailable(f"no answer to a subscription ({cause_of(error)}).") from error
        if self.trouble is not None:
            raise self.unavailable(
                f"{cause_of(self.trouble)}: allow the user to subscribe to _INBOX.>."
            )

    async def ask(self, subject: str, body: bytes) -> bytes:
        """Several requests may be under way. Raises errors of nats-py, or BrokerUnavailable."""
        self.check()
        with CancelScope() as scope, self._ended_by_loss(scope):
            return (await self.request(subject, body, timeout=self.patience)).data
        self.check()
        raise self.unavailable("no answer")

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._lost:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the system has taken the written data. Raises BrokerUnavailable."""
        await lowlevel.checkpoint()  # uvloop sends nothing before the loop's next turn
        with suppress(OSError):
            if self._transport is not None:
                await self._transport.drain()  # type: ignore[no-untyped-call]
        self.check()

    def drop(self) -> None:
        self._pending.clear()
        self._pending_data_size = 0
        transport, self._transport = self._transport, None
        writer = transport._io_writer if isinstance(transport, TcpTransport) else None  # noqa: SLF001
        if writer is not None and not writer.transport.is_closing():
            with suppress(OSError):
                plug = writer.get_extra_info("socket")
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()
        self._lose(None)

    async def end(self) -> None:
        """Cut the connection, and end its tasks. Does not raise."""
        self.drop()
        with move_on_after(_CLOSE_SECONDS, shield=True), suppress(Exception):
            await self.close()

    async def note(self, error: Exception) -> None:
        """Note an error that nats-py reports outside its calls."""
        self.trouble = error
        # Errors of NATS have no numbers, but these words are part of the protocol.
        if self._listener is not None and "permissions violation" in str(error).lower():
            self._listener.forbidden(cause_of(error))

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """Our context: nats-py would use a default context, with the system's files."""
        if not self._encrypted:
            raise TlsDiffers("the server asks for TLS")
        return super().ssl_context

    def _connect_command(self) -> bytes:
        # This sends the password; TLS, if used, has begun before.
        if self._encrypted and not self._server_info.get("tls_required"):
            raise TlsDiffers("the server does not ask for TLS")
        return super()._connect_command()

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if sid != self._our_sid or self._listener is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            self._listener.arrived(subject, reply, data, headers)
        except Exception as error:  # noqa: BLE001 - else the reading task would end unnoticed
            self._lose(error)
            self.drop()

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002
        # nats-py calls this when the server ends the connection or breaks the protocol, and to
        # close.
        self._lose(self._err)
        await super()._close(status, do_cbs)

    @contextmanager
    def _ended_by_loss(self, scope: CancelScope) -> Iterator[None]:
        self._waiting.add(scope)
        try:
            yield
        finally:
            self._waiting.discard(scope)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self.trouble = error or self.trouble
            for scope in self._waiting:
                scope.cancel()
            if self._listener is not None:
                self._listener.lost()


def cause_of(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    text = causes.cause_of(error) if isinstance(error, OSError) else str(error)
    return text.removeprefix("nats: ").strip("'") or type(error).__name__


def said(error: dict[str, Any]) -> str:
    return str(error.get("description") or error.get("code"))
