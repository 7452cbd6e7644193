"""Certificates for tests, valid for one day.

`write_signed_certificate(folder, "localhost")` returns the paths of three files by the names of
settings: certificate, private_key and authority.
"""

import datetime as dt
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificate(folder: Path, name: str, passphrase: bytes | None = None) -> dict[str, Any]:
    """Write a self-signed certificate and its key; return their paths by the names of settings."""
    key = _key()
    return _written(folder, _certificate(name, key, name, key), key, passphrase)


def write_signed_certificate(folder: Path, name: str) -> dict[str, Any]:
    """Write a certificate that a new authority has signed; its own certificate is a third file."""
    key, authority_key = _key(), _key()
    files = _written(folder, _certificate(name, key, "authority", authority_key), key, None)
    authority = _certificate("authority", authority_key, "authority", authority_key, signs=True)
    file = folder / "authority.pem"
    file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return files | {"authority": str(file)}


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    signs: bool = False,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
    if signs:
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return made.sign(issuer_key, hashes.SHA256())


def _written(
    folder: Path,
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    passphrase: bytes | None,
) -> dict[str, Any]:
    encryption = (
        serialization.BestAvailableEncryption(passphrase)
        if passphrase
        else serialization.NoEncryption()
    )
    files = {"certificate": folder / "receiver.pem", "private_key": folder / "receiver.key"}
    files["certificate"].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files["private_key"].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return {setting: str(path) for setting, path in files.items()}
