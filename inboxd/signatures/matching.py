"""Finds the key that made a signature, in a time that reveals nothing of it."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence

from inboxd.errors import Malformed, Unauthentic
from inboxd.signatures.contract import Key

# Maximum number of signatures in one request. A sender that changes keys sends one for each.
MOST_SIGNATURES = 16
# Digits of a time in seconds or milliseconds.
_LONGEST_TIME = 13
# Seconds per HMAC, and per byte; measured on a slow core.
_SECONDS, _SECONDS_PER_BYTE = 10e-6, 1.2e-9


class HmacKeys:
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
        """The first key that made one of the signatures, preferably one that is valid now."""
        found: Key | None = None
        for key, secret in self._keys:
            made = self._written(hmac.digest(secret, signed, self._algorithm))
            for each in given:
                if hmac.compare_digest(made, each):
                    found = preferred(found, key, now)
        return found

    def seconds(self, size: int) -> float:
        return len(self._keys) * (_SECONDS + _SECONDS_PER_BYTE * size)

    def signatures(self, signed: bytes, keys: Sequence[Key]) -> list[str]:
        return [
            self._written(hmac.digest(secret, signed, self._algorithm)).decode("ascii")
            for key, secret in self._keys
            if key in keys
        ]


def preferred(found: Key | None, key: Key, now: float) -> Key:
    return key if found is None or (key.is_valid(now) and not found.is_valid(now)) else found


def accepted(now: float, *found: Key | None) -> str:
    """The id of a matching key that is valid now. Raises Unauthentic."""
    matched = [key for key in found if key is not None]
    for key in matched:
        if key.is_valid(now):
            return key.id
    if matched:
        raise Unauthentic(f"the key {matched[0].id!r} made its signature, and is not valid now")
    raise Unauthentic("no key of this source made its signature")


def header(headers: Mapping[str, str], name: str) -> str:
    """A required header. Raises Malformed."""
    try:
        return headers[name]
    except KeyError:
        raise Malformed(f"it has no header {name}") from None


def wire(text: str, name: str) -> bytes:
    """The bytes of a header's value, as sent. Raises Malformed for other characters."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise Malformed(f"its {name} has characters that are not allowed in a header") from None


def check_time(text: str, name: str, now: float, tolerance: float) -> bytes:
    """A time in seconds or milliseconds, within the tolerance. Raises Malformed."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_TIME):
        raise Malformed(f"its {name} is not a time in seconds")
    at = int(text) if len(text) < _LONGEST_TIME else int(text) / 1000
    if not -tolerance <= now - at <= tolerance:
        raise Malformed(
            f"its {name} is off by {now - at:+.0f} s, which is more than {tolerance:g} s"
        )
    return text.encode("ascii")
