"""How a Kafka cluster is reached: servers, TLS and SASL, as aiokafka takes them.

Owns the words for a cluster that cannot be reached: the broker's name in the settings, the server,
the cause, the remedy. Promises that the password is in none of them, and in no representation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import SSLError
from typing import Any, TypeAlias

from aiokafka.conn import AIOKafkaConnection, collect_hosts, create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from anyio import fail_after, to_thread

from inboxd.brokers import tls
from inboxd.brokers.causes import cause_of
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker

Connection: TypeAlias = AIOKafkaConnection

# What a connection, or a request by one, ends in; the last ones: another protocol is spoken there.
LOST = (KafkaError, OSError, TimeoutError, ValueError, AssertionError, NotImplementedError)
_NOT_LET_IN = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
_CLIENT = "inboxd"
# A broker answers within the time that a request gives it; after this it hangs.
_ANSWER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Access:
    """That to the cluster of one broker of the settings."""

    name: str
    servers: tuple[str, ...]
    patience: float
    """Seconds that a connection gets to be there."""
    arguments: Mapping[str, Any] = field(repr=False)
    """What aiokafka wants to know of TLS and SASL."""

    def unavailable(self, why: str) -> BrokerUnavailable:
        """The error for what passes; `why` names the cause and the remedy."""
        return BrokerUnavailable(f"broker {self.name!r} (kafka at {self.place}): {why}")

    @property
    def place(self) -> str:
        """Its servers."""
        return ", ".join(self.servers)


async def access_to(name: str, broker: Broker) -> Access:
    """Read what it needs. Raises BrokerUnavailable or SettingsError."""
    context = await to_thread.run_sync(tls.context, broker)
    arguments: dict[str, Any] = {"client_id": _CLIENT, "ssl_context": context}
    secured = "SSL" if context is not None else "PLAINTEXT"
    if broker.user is not None:
        arguments["sasl_mechanism"] = broker.mechanism.upper()
        arguments["sasl_plain_username"] = broker.user
        arguments["sasl_plain_password"] = await to_thread.run_sync(broker.secret) or ""
        secured = f"SASL_{secured}"
    arguments["security_protocol"] = secured
    return Access(name, broker.servers, broker.connect_timeout.total_seconds(), arguments)


async def connect(access: Access, host: str, port: int) -> Connection:
    """A connection to one broker, logged in, within the time that it gets. Raises one of `LOST`."""
    with fail_after(access.patience):
        return await create_conn(host, port, request_timeout_ms=_ANSWER_MS, **access.arguments)


def first_places(access: Access) -> list[tuple[str, int]]:
    """Hosts and ports of the settings, in any order. Raises BrokerUnavailable."""
    try:
        return [(host, port) for host, port, _ in collect_hosts(list(access.servers))]
    except ValueError as error:
        raise access.unavailable(
            f'servers are not valid: correct them in [brokers.{access.name}], as "host:port".'
        ) from error


def why_not_reached(access: Access, error: Exception) -> str:
    """The cause and the remedy, of one of `LOST`."""
    section = f"[brokers.{access.name}]"
    if isinstance(error, _NOT_LET_IN):
        user = access.arguments.get("sasl_plain_username")
        mechanism = access.arguments.get("sasl_mechanism")
        return (
            f"user {user!r} is not let in by {mechanism} ({error}): correct user, password or "
            f"mechanism of {section}."
        )
    if isinstance(error, SSLError):
        return f"TLS failed ({_told(error)}): correct tls and tls_ca of {section}."
    if isinstance(error, TimeoutError):
        return (
            f"no answer within {access.patience:g} s: start it, or correct servers of {section}; "
            "TLS at one end only looks like this too."
        )
    return (
        f"it cannot be reached ({_told(error)}): start it, or correct servers, tls or user of "
        f"{section}."
    )


def _told(error: Exception) -> str:
    said = cause_of(error) if isinstance(error, OSError) else str(error)
    return said or type(error).__name__
