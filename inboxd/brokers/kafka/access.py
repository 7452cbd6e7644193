"""Access to a Kafka cluster, as arguments of aiokafka; no error and no `repr` has the password."""

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

# Errors of connections and requests; the last three: the server speaks another protocol.
LOST = (KafkaError, OSError, TimeoutError, ValueError, AssertionError, NotImplementedError)
_NOT_LET_IN = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
_CLIENT = "inboxd"
# Longer than the time limits in requests: a broker that takes longer hangs.
_ANSWER_MS = 60_000


@dataclass(frozen=True, slots=True)
class Access:
    name: str
    servers: tuple[str, ...]
    patience: float
    """Time limit for opening a connection, in seconds."""
    arguments: Mapping[str, Any] = field(repr=False)
    """Arguments of aiokafka for TLS and SASL."""

    def unavailable(self, why: str) -> BrokerUnavailable:
        return BrokerUnavailable(f"broker {self.name!r} (kafka at {self.place}): {why}")

    @property
    def place(self) -> str:
        return ", ".join(self.servers)


async def access_to(name: str, broker: Broker) -> Access:
    """Reads the secret and the certificates. Raises BrokerUnavailable or SettingsError."""
    context = await to_thread.run_sync(tls.context, name, broker)
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
    """Connect to one broker and log in, within `access.patience`. Raises an error of `LOST`."""
    with fail_after(access.patience):
        return await create_conn(host, port, request_timeout_ms=_ANSWER_MS, **access.arguments)


def first_places(access: Access) -> list[tuple[str, int]]:
    """Hosts and ports of the settings, in random order. Raises BrokerUnavailable."""
    try:
        return [(host, port) for host, port, _ in collect_hosts(list(access.servers))]
    except ValueError as error:
        raise access.unavailable(
            f'servers are not valid: correct them in [brokers.{access.name}], as "host:port".'
        ) from error


def why_not_reached(access: Access, error: Exception) -> str:
    section = f"[brokers.{access.name}]"
    if isinstance(error, _NOT_LET_IN):
        user = access.arguments.get("sasl_plain_username")
        mechanism = access.arguments.get("sasl_mechanism")
        return (
            f"login of user {user!r} by {mechanism} failed ({error}): correct user, password or "
            f"mechanism of {section}."
        )
    if isinstance(error, SSLError):
        return f"TLS failed ({_cause(error)}): correct tls and tls_ca of {section}."
    if isinstance(error, TimeoutError):
        return (
            f"no answer within {access.patience:g} s: start it, or correct servers of {section}; "
            "the same happens if only one end uses TLS."
        )
    return (
        f"it cannot be reached ({_cause(error)}): start it, or correct servers, tls or user of "
        f"{section}."
    )


def _cause(error: Exception) -> str:
    said = cause_of(error) if isinstance(error, OSError) else str(error)
    return said or type(error).__name__
