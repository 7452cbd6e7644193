"""TLS 1.2 or later for brokers; a key with a passphrase is refused: a daemon cannot ask for it."""

import ssl
from pathlib import Path

from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker


def context(name: str, broker: Broker) -> ssl.SSLContext | None:
    """None: no TLS. Reads files: call it in a thread. Raises BrokerUnavailable."""
    if not broker.tls:
        return None
    named = {"tls_ca": broker.tls_ca, "tls_cert": broker.tls_cert, "tls_key": broker.tls_key}
    for setting, path in named.items():
        if path is not None:
            _readable(name, setting, path)
    try:
        made = ssl.create_default_context(cafile=broker.tls_ca)
    except ssl.SSLError as error:
        raise _unusable(
            name, f"tls_ca={broker.tls_ca}", "it holds no certificate in PEM"
        ) from error
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if broker.tls_cert is not None:
        what = f"tls_cert={broker.tls_cert} with tls_key={broker.tls_key}"
        try:
            made.load_cert_chain(broker.tls_cert, broker.tls_key, password=_refuse_passphrase)
        except (ssl.SSLError, ValueError) as error:
            raise _unusable(
                name, what, "they must be PEM, belong together, and the key have no passphrase"
            ) from error
    return made


def _readable(name: str, setting: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise _unusable(name, f"{setting}={path}", error.strerror or "not readable") from error


def _unusable(name: str, what: str, why: str) -> BrokerUnavailable:
    return BrokerUnavailable(
        f"broker {name!r}: {what} cannot be used: {why}. Correct it in [brokers.{name}]."
    )


def _refuse_passphrase() -> str:
    """Called by OpenSSL instead of asking at the terminal."""
    raise ValueError("the key has a passphrase")
