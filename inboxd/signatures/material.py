"""Turns keys of the settings into bytes; a SettingsError has the key's id, and not its secret."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from inboxd.errors import SettingsError, UsageError
from inboxd.signatures.contract import Key


def checked(keys: Sequence[Key]) -> Sequence[Key]:
    """The keys, if there is at least one and all ids differ. Raises SettingsError."""
    if not keys:
        raise SettingsError("keys is empty: give at least one, with an id and a secret.")
    seen = set[str]()
    for key in keys:
        if not key.id:
            raise SettingsError(
                "keys: one has an empty id: give it an id, which receipts will show."
            )
        if key.id in seen:
            raise SettingsError(f"two keys have the id {key.id!r}: give each its own id.")
        seen.add(key.id)
        bounds = (key.not_before, key.not_after)
        if None not in bounds and bounds[0] > bounds[1]:  # type: ignore[operator] # both are numbers
            raise SettingsError(f"key {key.id!r}: its not_after is before its not_before.")
    return keys


def as_text(key: Key) -> bytes:
    """A secret that is used unchanged. Raises SettingsError if it is missing."""
    if key.public_key:
        raise SettingsError(f"key {key.id!r}: this scheme has no public keys: give a secret.")
    if not key.secret:
        raise SettingsError(f"key {key.id!r}: its secret is empty.")
    return key.secret


def as_base64(key: Key) -> bytes:
    return unpacked(as_text(key).strip(), f"key {key.id!r}: its secret")


def as_hex(key: Key) -> bytes:
    try:
        return binascii.unhexlify(as_text(key).strip())
    except ValueError:
        raise SettingsError(f"key {key.id!r}: its secret is not hexadecimal.") from None


def unpacked(text: bytes, what: str) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except ValueError:
        # Without the cause, which may quote the secret.
        raise SettingsError(f"{what} is not base64: copy all of it from the sender.") from None


def valid(keys: Sequence[Key], now: float) -> Sequence[Key]:
    """The keys that are valid now. Raises UsageError if there are none."""
    found = [key for key in keys if key.is_valid(now)]
    if not found:
        ids = ", ".join(repr(key.id) for key in keys)
        raise UsageError(f"no key is valid now: {ids}; see their not_before and not_after.")
    return found
