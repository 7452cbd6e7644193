"""A connection to NATS: nats-py's client, whose messages for one inbox are handed over as they are.

Promises: a connection that is lost stays lost, and keeps nothing for another one; `drop` ends it at
once, what the system has not sent included; no password goes over a connection that lacks the TLS
that the settings ask for.
What nats-py does for each message of a subscription costs several times all the rest, so our inbox
goes around it, by names that it has had since 2.9: `_process_msg`, `_close`, `_connect_command`,
and its transport's writer. Known limit: a server that merely allows TLS counts as one without.
*See:* `reaching`, which opens it.
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
# Closed, the system sends a reset instead of what it still has.
_NO_LINGER = struct.pack("ii", 1, 0)


class TlsDiffers(Error):
    """The server and the settings do not agree whether there is TLS."""


class NatsInbox(Protocol):
    """What is told of a connection, by the task that reads: none of it waits."""

    def arrived(self, subject: bytes, reply: bytes, body: bytes, headers: bytes | None, /) -> None:
        """A message came."""

    def forbidden(self, what: str) -> None:
        """The server does not let this user do something; `what` is how it says so."""

    def lost(self) -> None:
        """Nothing comes any more."""


class NatsConnection(Client):
    """One connection to one server."""

    def __init__(self, broker_name: str, broker: Broker, server: str) -> None:
        super().__init__()
        self.patience = broker.connect_timeout.total_seconds()
        """Seconds that the server gets to answer a request."""
        self.inbox = self.new_inbox()
        """What the subjects begin with that are ours."""
        self.trouble: Exception | None = None
        """What nats-py reported last, beside its calls."""
        # Without what may be written before it: a name and a password.
        self.place = f"broker {broker_name!r} (nats at {server.rpartition('@')[2]})"
        self._encrypted = broker.tls
        self._told: NatsInbox | None = None
        self._our_sid = 0
        self._lost = False
        # nats-py waits on for an answer when the connection is lost.
        self._waiting = set[CancelScope]()

    def unavailable(self, why: str) -> BrokerUnavailable:
        """The error for what passes; `why` names the cause and the remedy."""
        return BrokerUnavailable(f"{self.place}: {why}")

    def check(self) -> None:
        """Raise BrokerUnavailable if the connection is lost."""
        if self._lost:
            cause = "it was closed" if self.trouble is None else cause_of(self.trouble)
            raise self.unavailable(f"the connection is lost ({cause}).")

    async def listen(self, told: NatsInbox) -> None:
        """Hand over what comes to our inbox from now on. Raises BrokerUnavailable."""
        self._told, self.trouble = told, None
        try:
            self._our_sid = (await self.subscribe(f"{self.inbox}.*"))._id  # noqa: SLF001
            with CancelScope() as scope, self._ended_by_loss(scope):
                await self.flush(timeout=max(1, round(self.patience)))
            self.check()
        except (Error, OSError) as error:
            raise self.unavailable(f"no answer to a subscription ({cause_of(error)}).") from error
        if self.trouble is not None:
            raise self.unavailable(f"{cause_of(self.trouble)}: let the user subscribe to _INBOX.>.")

    async def ask(self, subject: str, body: bytes) -> bytes:
        """What is answered to a request; several may be under way.

        Raises what nats-py does, or BrokerUnavailable.
        """
        self.check()
        with CancelScope() as scope, self._ended_by_loss(scope):
            return (await self.request(subject, body, timeout=self.patience)).data
        self.check()
        raise self.unavailable("no answer")

    def write(self, data: bytes) -> None:
        """Send whole lines of the protocol."""
        if self._transport is not None and not self._lost:
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until what was written is the system's. Raises BrokerUnavailable."""
        await lowlevel.checkpoint()  # uvloop sends nothing before
        with suppress(OSError):
            if self._transport is not None:
                await self._transport.drain()  # type: ignore[no-untyped-call]
        self.check()

    def drop(self) -> None:
        """Cut the connection: what was not sent is not sent any more."""
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
        """Cut it, and end its tasks. Does not raise."""
        self.drop()
        with move_on_after(_CLOSE_SECONDS, shield=True), suppress(Exception):
            await self.close()

    async def note(self, error: Exception) -> None:
        """Keep what nats-py reports beside its calls."""
        self.trouble = error
        # The protocol has no numbers for errors: these words are part of it.
        if self._told is not None and "permissions violation" in str(error).lower():
            self._told.forbidden(cause_of(error))

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """nats-py would take one of the system's, and read its files meanwhile."""
        if not self._encrypted:
            raise TlsDiffers("the server asks for TLS")
        return super().ssl_context

    def _connect_command(self) -> bytes:
        # TLS comes before, if it comes; this has the password.
        if self._encrypted and not self._server_info.get("tls_required"):
            raise TlsDiffers("the server does not ask for TLS")
        return super()._connect_command()

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        if sid != self._our_sid or self._told is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            self._told.arrived(subject, reply, data, headers)
        except Exception as error:  # noqa: BLE001 - the task that reads would end, and nobody know
            self._lose(error)
            self.drop()

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002
        # What the server ends leads here, and what cannot be read, and `close`.
        self._lose(self._err)
        await super()._close(status, do_cbs)

    @contextmanager
    def _ended_by_loss(self, scope: CancelScope) -> Iterator[None]:
        """Meanwhile it is cancelled when the connection is lost."""
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
            if self._told is not None:
                self._told.lost()


def cause_of(error: BaseException) -> str:
    """What an error says, without what the library puts around it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    text = causes.cause_of(error) if isinstance(error, OSError) else str(error)
    return text.removeprefix("nats: ").strip("'") or type(error).__name__


def said(error: dict[str, Any]) -> str:
    """What JetStream says of what it refuses."""
    return str(error.get("description") or error.get("code"))
