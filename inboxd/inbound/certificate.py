"""TLS 1.2 or later for the listener, HTTP/1.1 only; a key with a passphrase is refused."""

import ssl
from pathlib import Path

from inboxd.errors import SettingsError


def tls(
    certificate: Path | None, private_key: Path | None, section: str = "inbound.http"
) -> ssl.SSLContext | None:
    """Read both files of a section; None if there is no certificate. Raises SettingsError."""
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path in filter(None, (certificate, private_key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise _unusable(
                section, certificate, private_key, f"{path}: {error.strerror}"
            ) from error
    try:
        context.load_cert_chain(certificate, private_key, password=_no_passphrase)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise _unusable(
            section, certificate, private_key, reason.lower().replace("_", " ")
        ) from error
    return context


def _no_passphrase() -> str:
    raise ValueError("the private key has a passphrase")


def _unusable(
    section: str, certificate: Path, private_key: Path | None, reason: str
) -> SettingsError:
    return SettingsError(
        f"{section}.certificate {str(certificate)!r} and {section}.private_key "
        f"{str(private_key)!r} cannot be used: {reason}; both are PEM files that this process "
        "may read, and the key is the certificate's, without a passphrase"
    )
