"""Standard Webhooks 1.0.0, and its origin Svix: the same form with other names of headers.

Id, time and body are signed: a captured request cannot be sent later, or under another id.
See: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from inboxd.errors import Malformed, SettingsError
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.ed25519 import PUBLIC, KeyPairs, is_pair
from inboxd.signatures.matching import (
    MOST_SIGNATURES,
    HmacKeys,
    accepted,
    check_time,
    header,
    wire,
)
from inboxd.signatures.material import as_text, checked, unpacked, valid
from inboxd.signatures.options import known

_SECRET = b"whsec_"
# Bounds for the bytes of a secret.
_LEAST, _MOST, _MOST_OF_SVIX = 24, 64, 75


class StandardWebhooksVerifier(Verifier):
    prefix: ClassVar[str] = "webhook"
    longest: ClassVar[int] = _MOST

    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:
        known(options, ())
        self._keys = checked(keys)
        self._tolerance = tolerance
        self._id = f"{self.prefix}-id"
        self._time = f"{self.prefix}-timestamp"
        self._signature = f"{self.prefix}-signature"
        symmetric = [key for key in keys if not is_pair(key)]
        self._secrets = HmacKeys(symmetric, self._secret, "sha256", base64.b64encode)
        self._pairs = KeyPairs([key for key in keys if is_pair(key)])
        self.signed_headers = frozenset({self._id, self._time, self._signature})
        self.default_dedup_key = f"header:{self._id}"

    def verify(self, request: SignedRequest, now: float) -> str:
        headers = request.headers
        id_ = header(headers, self._id)
        time = check_time(header(headers, self._time), self._time, now, self._tolerance)
        symmetric, asymmetric = self._given(wire(header(headers, self._signature), self._signature))
        signed = b"%b.%b.%b" % (self._checked_id(id_), time, request.body)
        return accepted(
            now,
            self._secrets.found(signed, symmetric, now) if symmetric else None,
            self._pairs.found(signed, asymmetric, now) if asymmetric else None,
        )

    def seconds(self, size: int) -> float:
        return self._secrets.seconds(size) + self._pairs.seconds(size)

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        """Signs with each valid key, like a sender that changes its keys."""
        time = str(int(now))
        signed = f"{message_id}.{time}.".encode() + body
        keys = valid(self._keys, now)
        made = [f"v1,{each}" for each in self._secrets.signatures(signed, keys)]
        made += [f"v1a,{each}" for each in self._pairs.signatures(signed, keys)]
        return {self._id: message_id, self._time: time, self._signature: " ".join(made)}

    def _given(self, signatures: bytes) -> tuple[list[bytes], list[bytes]]:
        """The signatures `v1` and `v1a`; other versions are ignored."""
        symmetric, asymmetric = [], []
        for each in signatures.split(b" "):
            if each.startswith(b"v1,"):
                symmetric.append(each[3:])
            elif each.startswith(b"v1a,"):
                asymmetric.append(each[4:])
        if not 0 < len(symmetric) + len(asymmetric) <= MOST_SIGNATURES:
            raise Malformed(f"its {self._signature} has no signature, or too many")
        return symmetric, asymmetric

    def _checked_id(self, text: str) -> bytes:
        # A captured "a.1.2.rest" could otherwise be sent as the id "a.1" at the time 2.
        if not text or ("." in text and text.rpartition(".")[2].isdigit()):
            raise Malformed(f"its {self._id} is not an id: it is empty, or ends like a time")
        return wire(text, self._id)

    def _secret(self, key: Key) -> bytes:
        text = as_text(key).strip()
        if text.startswith(PUBLIC.encode()):
            raise SettingsError(f"key {key.id!r}: that is a public key: give it as public_key.")
        raw = unpacked(text.removeprefix(_SECRET), f"key {key.id!r}: its secret")
        if not _LEAST <= len(raw) <= self.longest:
            raise SettingsError(
                f"key {key.id!r}: its secret has {len(raw)} bytes once decoded, and must have "
                f"{_LEAST} to {self.longest}: copy it whole from the sender."
            )
        return raw


class SvixVerifier(StandardWebhooksVerifier):
    prefix = "svix"
    longest = _MOST_OF_SVIX
