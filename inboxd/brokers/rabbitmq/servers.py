"""Opens a connection to a broker's servers in turn; an error never contains the password."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio import to_thread
from pamqp import commands

from inboxd.brokers import tls
from inboxd.brokers.causes import cause_of
from inboxd.brokers.rabbitmq.connection import AmqpConnection
from inboxd.errors import BrokerUnavailable, SettingsError
from inboxd.settings import Broker

_GUEST = "guest"  # RabbitMQ's default user and password

# Our capabilities; without the first one, RabbitMQ ends the connection at a refused login without a
# reason.
_CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


async def connect(name: str, broker: Broker, role: str) -> AmqpConnection:
    """role: the connection's name at RabbitMQ. Raises BrokerUnavailable."""
    try:
        password = await to_thread.run_sync(broker.secret)
        context = await to_thread.run_sync(tls.context, name, broker)
    except SettingsError as error:
        raise BrokerUnavailable(f"broker {name!r}: {error}") from error
    user = broker.user or _GUEST
    login = commands.Connection.StartOk(
        {"product": "inboxd", "connection_name": role, "capabilities": dict(_CAPABILITIES)},
        response=f"\0{user}\0{password or _GUEST}",
    )
    failed = []
    for server in broker.servers:
        try:
            return await _logged_in(name, broker, server, context, login)
        except BrokerUnavailable as error:
            failed.append(str(error))
    raise BrokerUnavailable(" ".join(failed))


async def _logged_in(
    name: str,
    broker: Broker,
    server: str,
    context: ssl.SSLContext | None,
    login: commands.Connection.StartOk,
) -> AmqpConnection:
    where, user = f"[brokers.{name}]", broker.user or _GUEST
    remedies = {
        403: f"correct user ({user!r}) or password of {where}",
        530: f"allow {user!r} to use the virtual host, or correct virtual_host of {where}",
    }
    patience = broker.connect_timeout.total_seconds()
    connection = AmqpConnection(f"broker {name!r} at {server}", remedies, patience)
    try:
        with _explained(connection, where), anyio.fail_after(patience):
            host, _, port = server.rpartition(":")
            loop = asyncio.get_running_loop()
            await loop.create_connection(
                lambda: connection, host.strip("[]"), int(port), ssl=context
            )
            await connection.greeting()
            await connection.log_in(login, broker.virtual_host)
    except BaseException:
        connection.abort()
        raise
    return connection


@contextmanager
def _explained(connection: AmqpConnection, where: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise connection.unavailable(
            f"did not answer in time: start it, or correct servers or connect_timeout of {where}"
        ) from error
    except ssl.SSLCertVerificationError as error:
        raise connection.unavailable(
            f"has a certificate that is not trusted ({cause_of(error)}): correct servers or "
            f"tls_ca of {where}"
        ) from error
    except ssl.SSLError as error:
        raise connection.unavailable(
            f"fails at TLS ({cause_of(error)}): correct servers or tls of {where}"
        ) from error
    except OSError as error:
        raise connection.unavailable(
            f"cannot be reached ({cause_of(error)}): start it, or correct servers of {where}"
        ) from error
    except (ValueError, OverflowError) as error:  # a port or a text that does not fit AMQP
        raise connection.unavailable(f"cannot be used ({error}): correct {where}") from error
