"""Texts that only this process, or its secret, can have made.

Owns their form. Promises: what was changed by one bit, was made with another secret, or for another
purpose, is none of them; a text can be sent as a cookie.
*See:* `sessions.py` and `flows.py`, what stands in them.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import orjson

# A browser keeps no longer cookie.
_LONGEST = 4096


class SignedTexts:
    """The texts of one secret."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: of 32 bytes or more."""
        self._secret = secret

    def digest(self, purpose: str, text: bytes) -> str:
        """What stands for a text, and tells nothing of it."""
        return hmac.digest(self._secret, purpose.encode() + b"\0" + text, sha256).hex()

    def written(self, purpose: str, fields: Sequence[object]) -> str:
        """These fields, signed."""
        body = urlsafe_b64encode(orjson.dumps(fields)).rstrip(b"=")
        return f"{body.decode()}.{self.digest(purpose, body)}"

    def read(self, purpose: str, text: str) -> list[Any] | None:
        """The fields of a text; None: it is not one of these."""
        if len(text) > _LONGEST or not text.isascii():
            return None
        body, _, digest = text.partition(".")
        if not hmac.compare_digest(self.digest(purpose, body.encode()), digest):
            return None
        fields: list[Any] = orjson.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return fields
