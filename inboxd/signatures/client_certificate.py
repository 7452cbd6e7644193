"""Mutual TLS that ends at a trusted proxy, which names the certificate's subject in a header.

The proxy must set it in each request, empty without a certificate, or a sender's own counts.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from inboxd.errors import SettingsError, Unauthentic
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.matching import accepted, preferred, wire
from inboxd.signatures.material import as_text, checked, valid
from inboxd.signatures.options import known, name_of_header

# SHA-1 or SHA-256, with or without colons.
_FINGERPRINT = re.compile(
    rb"(?:[0-9a-f]{2}:?){19}(?:(?:[0-9a-f]{2}:?){12})?[0-9a-f]{2}", re.IGNORECASE
)


class ClientCertificateVerifier(Verifier):
    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        known(options, ("header", "subjects"))
        self._header = name_of_header(options, "header")
        self._keys = checked([*keys, *_named(options.get("subjects", ()))])
        self._subjects = [(key, _one_form(as_text(key))) for key in self._keys]
        self.signed_headers = frozenset({self._header}) - self.secret_headers

    def verify(self, request: SignedRequest, now: float) -> str:
        if not request.from_trusted_proxy:
            raise Unauthentic("it did not come through a trusted proxy: see trusted_proxies")
        given = request.headers.get(self._header, "")
        if not given:
            raise Unauthentic(f"it has no client certificate: {self._header} is empty")
        subject = _one_form(wire(given, self._header))
        found: Key | None = None
        for key, each in self._subjects:
            if hmac.compare_digest(each, subject):
                found = preferred(found, key, now)
        return accepted(now, found)

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:  # noqa: ARG002
        return {self._header: valid(self._keys, now)[0].secret.decode("latin-1")}


def _named(subjects: Any) -> list[Key]:
    if isinstance(subjects, str) or not all(isinstance(each, str) and each for each in subjects):
        raise SettingsError("subjects is not a list of subjects or fingerprints.")
    try:
        return [Key(each, each.encode("latin-1")) for each in subjects]
    except UnicodeEncodeError:
        raise SettingsError(
            "subjects: one has characters that are not allowed in a header."
        ) from None


def _one_form(text: bytes) -> bytes:
    return text.replace(b":", b"").lower() if _FINGERPRINT.fullmatch(text) else text
