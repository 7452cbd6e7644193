"""Key pairs: ed25519 signatures, by the library `cryptography`, which the extra `ed25519` installs.

Promises: a request without a valid signature costs at most two verifications of the whole body per
key, for any number of signatures.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from inboxd.errors import SettingsError, UsageError
from inboxd.signatures.contract import Key
from inboxd.signatures.matching import preferred
from inboxd.signatures.material import unpacked

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PUBLIC, PRIVATE = "whpk_", "whsk_"
_LENGTH = 32
# Signatures that are compared with each key: a sender that changes its key sends two.
_COMPARED = 2
# Seconds per verification, and per byte; measured on a slow core: 3 ms for a MiB.
_SECONDS, _SECONDS_PER_BYTE = 150e-6, 2.8e-9
# Length of a signature in base64.
_WRITTEN = 88


def is_pair(key: Key) -> bool:
    return bool(key.public_key) or key.secret.startswith(PRIVATE.encode())


class KeyPairs:
    def __init__(self, keys: Sequence[Key]) -> None:
        self._keys = [(key, *_loaded(key)) for key in keys]

    def found(self, signed: bytes, given: Sequence[bytes], now: float) -> Key | None:
        """Prefers a key that is valid now; public keys are not secret, so the search ends there."""
        if not self._keys:
            return None
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra

        found: Key | None = None
        signatures = dict.fromkeys(raw for each in given if (raw := _decoded(each)) is not None)
        pairs = product(signatures, self._keys)
        for each, (key, public, _) in islice(pairs, _COMPARED * len(self._keys)):
            try:
                public.verify(each, signed)
            except InvalidSignature:
                continue
            found = preferred(found, key, now)
            if found.is_valid(now):
                break
        return found

    def seconds(self, size: int) -> float:
        """Estimate the longest time of `found` for this size: that of forged signatures."""
        return _COMPARED * len(self._keys) * (_SECONDS + _SECONDS_PER_BYTE * size)

    def signatures(self, signed: bytes, keys: Sequence[Key]) -> list[str]:
        """Signatures by these keys. Raises UsageError for a public key."""
        made = []
        for key, _, private in self._keys:
            if key not in keys:
                continue
            if private is None:
                raise UsageError(
                    f"key {key.id!r} is a public key, which cannot sign: only the sender has the "
                    f"private one ({PRIVATE}…)."
                )
            made.append(base64.b64encode(private.sign(signed)).decode("ascii"))
        return made


def _decoded(given: bytes) -> bytes | None:
    """A signature's bytes; None if it is not in the senders' form."""
    if len(given) != _WRITTEN:
        return None
    try:
        raw = base64.b64decode(given, validate=True)
    except ValueError:
        return None
    return raw if base64.b64encode(raw) == given else None


def _loaded(key: Key) -> tuple[Ed25519PublicKey, Ed25519PrivateKey | None]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - an extra
            Ed25519PrivateKey,
            Ed25519PublicKey,
        )
    except ImportError:
        raise SettingsError(
            f"key {key.id!r} is a key pair's, which needs the library cryptography; it is not "
            "installed: pip install 'inboxd[ed25519]'."
        ) from None
    if key.public_key:
        if key.secret:
            raise SettingsError(f"key {key.id!r} has a secret and a public key: give one of them.")
        raw = _raw(key.public_key.strip(), PUBLIC, f"key {key.id!r}: its public key")
        if len(raw) != _LENGTH:
            raise SettingsError(f"key {key.id!r}: its public key has {len(raw)} bytes, not 32.")
        return Ed25519PublicKey.from_public_bytes(raw), None
    what = f"key {key.id!r}: its private key"
    raw = _raw(key.secret.decode("latin-1").strip(), PRIVATE, what)
    if len(raw) not in {_LENGTH, 2 * _LENGTH}:
        raise SettingsError(f"{what} has {len(raw)} bytes, not 32, or 64 with the public one.")
    private = Ed25519PrivateKey.from_private_bytes(raw[:_LENGTH])
    public = private.public_key()
    if raw[_LENGTH:] not in {b"", public.public_bytes_raw()}:
        raise SettingsError(f"{what} and the public one in it are not a pair.")
    return public, private


def _raw(text: str, prefix: str, what: str) -> bytes:
    return unpacked(text.removeprefix(prefix).encode("utf-8"), what)
