"""Reaches a NATS server: chooses the server, TLS and user; no error contains the secret."""

import ssl

from anyio import fail_after, to_thread
from nats.errors import Error, NoServersError

from inboxd.brokers import tls
from inboxd.brokers.nats.connection import NatsConnection, TlsDiffers, cause_of
from inboxd.errors import BrokerUnavailable, SettingsError
from inboxd.settings import Broker

_PING_SECONDS = 20  # after two pings without an answer the connection is lost


async def connect(name: str, broker: Broker) -> NatsConnection:
    """Connect to the first server that can be reached. Raises BrokerUnavailable."""
    try:
        context = await to_thread.run_sync(tls.context, name, broker)
        secret = await to_thread.run_sync(broker.secret)
    except SettingsError as error:
        raise BrokerUnavailable(f"broker {name!r}: {error}") from error
    failed = []
    for server in broker.servers:
        connection = NatsConnection(name, broker, server)
        try:
            with fail_after(connection.patience):
                await _connect(connection, broker, server, context, secret)
        except (Error, OSError, ValueError) as error:
            failed.append(connection.unavailable(_why(error, connection, f"[brokers.{name}]")))
            await connection.end()
        except BaseException:
            await connection.end()
            raise
        else:
            return connection
    raise BrokerUnavailable(" ".join(map(str, failed)) or f"broker {name!r} has no servers.")


async def _connect(
    connection: NatsConnection,
    broker: Broker,
    server: str,
    context: ssl.SSLContext | None,
    secret: str | None,
) -> None:
    await connection.connect(
        servers=server,
        name="inboxd",
        error_cb=connection.note,
        allow_reconnect=False,
        # nats-py counts the first connection as one, and must not wait before the second attempt.
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        connect_timeout=max(1, round(connection.patience)),
        ping_interval=_PING_SECONDS,
        tls=context,
        user=broker.user,
        password=None if broker.user is None else secret or "",
        token=secret if broker.user is None else None,
    )
    if not connection.is_connected:
        raise ConnectionResetError("it closed the connection")


def _why(error: BaseException, connection: NatsConnection, section: str) -> str:
    if isinstance(error, NoServersError) and connection.trouble is not None:
        error = connection.trouble
    cause = cause_of(error)
    if "authorization" in cause.lower():  # a word of the protocol; there are no numbers
        return f"login failed ({cause}): correct user and password of {section}."
    if isinstance(error, ssl.SSLError | TlsDiffers):
        return f"{cause}: correct tls, tls_ca or tls_cert of {section}."
    if isinstance(error, TimeoutError):
        cause = f"no answer within {connection.patience:g} s"
    return f"it cannot be reached ({cause}): start it, or correct servers of {section}."
