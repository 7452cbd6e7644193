"""Stripe: one header with a time and signatures, `t=…,v1=…`; the event's id is in the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inboxd.errors import Malformed
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.matching import (
    MOST_SIGNATURES,
    HmacKeys,
    accepted,
    check_time,
    header,
    wire,
)
from inboxd.signatures.material import as_text, checked, valid
from inboxd.signatures.options import known

_HEADER = "stripe-signature"


class StripeVerifier(Verifier):
    """`v1`: an HMAC of time and body. Other versions are ignored, as Stripe requires."""

    signed_headers = frozenset({_HEADER})
    default_dedup_key = "pointer:/id"

    def __init__(self, keys: Sequence[Key], tolerance: float, options: Mapping[str, Any]) -> None:
        known(options, ())
        self._keys = checked(keys)
        self._tolerance = tolerance
        # The secret is used unchanged, with its "whsec_".
        self._made = HmacKeys(keys, as_text, "sha256", lambda digest: digest.hex().encode("ascii"))

    def verify(self, request: SignedRequest, now: float) -> str:
        times, signatures = [], []
        for part in header(request.headers, _HEADER).split(","):
            name, _, value = part.strip().partition("=")
            if name == "v1":
                signatures.append(wire(value, _HEADER))
            elif name == "t":
                times.append(value)
        if len(times) != 1 or not 0 < len(signatures) <= MOST_SIGNATURES:
            raise Malformed(f"its {_HEADER} must have one time and signatures: t=…,v1=…")
        time = check_time(times[0], _HEADER, now, self._tolerance)
        signed = b"%b.%b" % (time, request.body)
        return accepted(now, self._made.found(signed, signatures, now))

    def seconds(self, size: int) -> float:
        return self._made.seconds(size)

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:  # noqa: ARG002
        time = str(int(now))
        signed = b"%b.%b" % (time.encode("ascii"), body)
        made = self._made.signatures(signed, valid(self._keys, now))
        return {_HEADER: ",".join([f"t={time}", *(f"v1={each}" for each in made)])}
