"""Texts that fit into cookies, signed with the secret of this process or its settings.

Promises: a text that was changed, or was signed with another secret or for another purpose, is not
accepted.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import orjson

# Browsers keep cookies of at most 4 kB.
_LONGEST = 4096


class SignedTexts:
    def __init__(self, secret: bytes) -> None:
        """The secret has at least 32 bytes."""
        self._secret = secret

    def digest(self, purpose: str, text: bytes) -> str:
        """The keyed digest (HMAC) reveals nothing of the text."""
        return hmac.digest(self._secret, purpose.encode() + b"\0" + text, sha256).hex()

    def written(self, purpose: str, fields: Sequence[object]) -> str:
        body = urlsafe_b64encode(orjson.dumps(fields)).rstrip(b"=")
        return f"{body.decode()}.{self.digest(purpose, body)}"

    def read(self, purpose: str, text: str) -> list[Any] | None:
        if len(text) > _LONGEST or not text.isascii():
            return None
        body, _, digest = text.partition(".")
        if not hmac.compare_digest(self.digest(purpose, body.encode()), digest):
            return None
        fields: list[Any] = orjson.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return fields
