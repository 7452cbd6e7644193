"""Stripe: the constants of its library's tests, several signatures, and a time."""

import hashlib
import hmac
from typing import Any

import pytest

from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

# stripe-python, tests/test_webhook.py.
PAYLOAD = b"""{
  "id": "evt_test_webhook",
  "object": "event",
  "data": { "object": { "id": "rdr_123", "object": "terminal.reader" } }
}"""
SECRET = b"whsec_test_secret"
NOW = 1_700_000_000.0


def made(*keys: Key) -> Verifier:
    return verifier("stripe", keys or (Key("a", SECRET),), tolerance=10)


def generated(timestamp: int = int(NOW), scheme: str = "v1", **changed: Any) -> str:
    """A header like those of `generate_header` in the library's tests."""
    payload, secret = changed.get("payload", PAYLOAD), changed.get("secret", SECRET)
    signed = b"%d.%s" % (timestamp, payload)
    signature = hmac.new(secret, msg=signed, digestmod=hashlib.sha256).hexdigest()
    return f"t={timestamp},{scheme}={changed.get('signature', signature)}"


def verified(header: str, *keys: Key, now: float = NOW) -> str:
    return made(*keys).verify(SignedRequest({"stripe-signature": header}, PAYLOAD), now)


def test_a_header_of_the_library_is_verified() -> None:
    assert verified(generated()) == "a"
    assert verified(generated() + ",v1=bad_signature") == "a"
    assert verified("v1=bad_signature," + generated() + ",v0=6ffbb59b") == "a"
    assert made().sign(PAYLOAD, "any", NOW + 0.5) == {"stripe-signature": generated()}
    assert made().default_dedup_key == "pointer:/id"
    assert made().signed_headers == {"stripe-signature"}


@pytest.mark.parametrize(
    "header",
    [
        generated(signature="bad_signature"),
        generated(secret=b"whsec_other"),
        generated(signature=""),
    ],
)
def test_an_unsigned_header_is_refused(header: str) -> None:
    with pytest.raises(Unauthentic):
        verified(header)


@pytest.mark.parametrize(
    "header",
    [
        *("", "bad_header", "i'm not even a real signature header", "t=,v1=", "t=1700000000"),
        *(generated(scheme="v0"), generated(scheme="V1"), generated()[2:], f"{generated()},t=1"),
        *(generated() + ",v1=x" * 16, generated().replace("t=", "t= "), "v1=\u0142,t=1700000000"),
    ],
)
def test_a_header_in_another_form_is_malformed(header: str) -> None:
    with pytest.raises(Malformed):
        verified(header)


def test_a_missing_header_is_malformed() -> None:
    with pytest.raises(Malformed, match="no header stripe-signature"):
        made().verify(SignedRequest({}, PAYLOAD), NOW)


@pytest.mark.parametrize("away", [10, -10])
def test_the_tolerance_is_inclusive(away: int) -> None:
    assert verified(generated(int(NOW) + away)) == "a"
    with pytest.raises(Malformed, match="more than 10 s"):
        verified(generated(int(NOW) + away + away // 10))


def test_an_old_and_a_new_secret_may_sign_together() -> None:
    old, new = Key("old", b"whsec_1", not_after=NOW), Key("new", b"whsec_2")
    sent = made(new, old).sign(PAYLOAD, "", NOW)["stripe-signature"]
    assert sent.count("v1=") == 2
    assert verified(sent, Key("a", b"whsec_1")) == "a"
    assert verified(sent, Key("a", b"whsec_2")) == "a"
    assert made(new, old).sign(PAYLOAD, "", NOW + 1)["stripe-signature"].count("v1=") == 1
    with pytest.raises(Unauthentic, match="'old' made its signature, and is not valid now"):
        verified(generated(secret=b"whsec_1"), old, new, now=NOW + 1)
