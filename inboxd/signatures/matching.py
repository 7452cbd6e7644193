"""Which key made a signature: all keys are tried against all signatures, in constant time.

Owns the time at which keys count, and what of a header is bounded. Promises: how long a comparison
takes tells neither how much of a signature was right nor which key it was for.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence

from inboxd.errors import Malformed, Unauthentic
from inboxd.signatures.contract import Key

# Signatures that are looked at in one request. A sender has one for each key that it changes.
MOST_SIGNATURES = 16
# Digits of a time: seconds, or milliseconds.
_LONGEST_TIME = 13


class HmacKeys:
    """Keys of an HMAC, with how a signature is written."""

    def __init__(
        self,
        keys: Sequence[Key],
        secret: Callable[[Key], bytes],
        algorithm: str,
        written: Callable[[bytes], bytes],
    ) -> None:
        self._keys = [(key, secret(key)) for key in keys]
        self._algorithm = algorithm
        self._written = written

    def found(self, signed: bytes, given: Sequence[bytes], now: float) -> Key | None:
        """The first key that made one of the signatures and counts now, or that made one."""
        found: Key | None = None
        for key, secret in self._keys:
            made = self._written(hmac.digest(secret, signed, self._algorithm))
            for each in given:
                if hmac.compare_digest(made, each):
                    found = preferred(found, key, now)
        return found

    def signatures(self, signed: bytes, keys: Sequence[Key]) -> list[str]:
        """What these keys of its own make of it."""
        return [
            self._written(hmac.digest(secret, signed, self._algorithm)).decode("ascii")
            for key, secret in self._keys
            if key in keys
        ]


def preferred(found: Key | None, key: Key, now: float) -> Key:
    """Of two keys that match the one that counts now; the first, if both do."""
    return key if found is None or (key.is_valid(now) and not found.is_valid(now)) else found


def accepted(now: float, *found: Key | None) -> str:
    """The id of a key that matched and counts now; raises Unauthentic."""
    matched = [key for key in found if key is not None]
    for key in matched:
        if key.is_valid(now):
            return key.id
    if matched:
        raise Unauthentic(f"the key {matched[0].id!r} made its signature, and is not valid now")
    raise Unauthentic("no key of this source made its signature")


def header(headers: Mapping[str, str], name: str) -> str:
    """A header that must be there; raises Malformed."""
    try:
        return headers[name]
    except KeyError:
        raise Malformed(f"it has no header {name}") from None


def wire(text: str, name: str) -> bytes:
    """The bytes that a header's value was on the wire; raises Malformed for what no wire has."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise Malformed(f"its {name} has characters that no header carries") from None


def check_time(text: str, name: str, now: float, tolerance: float) -> bytes:
    """A time, in seconds or milliseconds, that is near enough; raises Malformed."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_TIME):
        raise Malformed(f"its {name} is not a time in seconds")
    at = int(text) if len(text) < _LONGEST_TIME else int(text) / 1000
    if not -tolerance <= now - at <= tolerance:
        raise Malformed(f"its {name} is {now - at:+.0f} s away, which is more than {tolerance:g} s")
    return text.encode("ascii")
