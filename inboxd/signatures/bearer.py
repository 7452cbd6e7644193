"""A token in a header. Known limit: a person who reads one request can send any other."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from inboxd.errors import Unauthentic
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.matching import accepted, preferred, wire
from inboxd.signatures.material import as_text, checked, valid
from inboxd.signatures.options import known, name_of_header, text

# A token with fewer bytes could be guessed.
_LEAST = 16


class BearerVerifier(Verifier):
    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        known(options, ("header", "prefix"))
        self._keys = checked(keys)
        self._header = name_of_header(options, "header", "authorization")
        usual = "Bearer " if self._header == "authorization" else ""
        self._prefix = text(options, "prefix", usual)
        # Digests have equal lengths, so that timing does not reveal a token's length.
        self._digests = [(key, hashlib.sha256(as_text(key)).digest()) for key in keys]
        self.secret_headers = frozenset({"authorization", self._header})
        self.doubts = tuple(
            f"key {key.id!r}: its token has less than {_LEAST} bytes, and could be guessed"
            for key in keys
            if len(key.secret) < _LEAST
        )

    def verify(self, request: SignedRequest, now: float) -> str:
        given, length = request.headers.get(self._header, ""), len(self._prefix)
        if given[:length].lower() != self._prefix.lower() or len(given) == length:
            raise Unauthentic(f"it has no token in its {self._header}")
        digest = hashlib.sha256(wire(given[length:], self._header)).digest()
        found: Key | None = None
        for key, made in self._digests:
            if hmac.compare_digest(made, digest):
                found = preferred(found, key, now)
        return accepted(now, found)

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:  # noqa: ARG002
        token = valid(self._keys, now)[0].secret.decode("latin-1")
        return {self._header: self._prefix + token}
