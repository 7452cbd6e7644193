"""Each scheme with the library of its senders: we accept its signatures, and make the same ones.

The values are what these libraries computed and accepted for this key, id, time and body: stripe
23.1.0, standardwebhooks 1.1.1, svix 1.99.1, @octokit/webhooks-methods 6.0.0 and
@shopify/shopify-api 13.1.0 of npm, slack_sdk 3.48.0 of PyPI. Tests that sign and verify with our
own code only would not notice a form that others refuse.
"""

from typing import Any, NamedTuple

import pytest

from inboxd.signatures import Key, SignedRequest, Unauthentic, verifier

BODY = '{"id":"evt_1","name":"Zoë","amount":10.50}\n'.encode()
ID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
TIME = 1_700_000_000
WHSEC = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
V1 = "v1,QMkSrqd7tPvW8eJIS9bDFDT8Gx2sJuRY9yjbWVyoEXA="


class Vector(NamedTuple):
    """A scheme with its settings, and the headers that the library made."""

    scheme: str
    secret: bytes
    sent: dict[str, str]
    options: dict[str, Any] = {}  # noqa: RUF012 - no test changes it


VECTORS = {
    "stripe": Vector(
        "stripe",
        b"whsec_test_secret",
        {
            "stripe-signature": f"t={TIME},"
            "v1=1743b729facd870bcaceb01e566c2cb5100f6f25c0f46ab3d43448e31d538b05"
        },
    ),
    "standard webhooks": Vector(
        "standard_webhooks",
        WHSEC,
        {"webhook-id": ID, "webhook-timestamp": str(TIME), "webhook-signature": V1},
    ),
    "svix": Vector(
        "svix",
        WHSEC,
        {"svix-id": ID, "svix-timestamp": str(TIME), "svix-signature": V1},
    ),
    "github": Vector(
        "github",
        b"hush",
        {
            "x-github-delivery": ID,
            "x-hub-signature-256": "sha256="
            "12fb57e2c49adaa270a714b1e07fb1411dcde2b0e2cab44a77bff2d0b2be62dc",
        },
    ),
    "slack": Vector(
        "hmac",
        b"8f742231b10e8888abcd99yyyzzz85a5",
        {
            "x-slack-request-timestamp": str(TIME),
            "x-slack-signature": "v0="
            "0ec9a2cbafef7c272c3a262ca948e4ace81ab5498f123d424c1d77d300282121",
        },
        {
            "header": "x-slack-signature",
            "prefix": "v0=",
            "template": "v0:{timestamp}:{body}",
            "timestamp_header": "x-slack-request-timestamp",
        },
    ),
    # The library refuses the form without padding.
    "shopify": Vector(
        "hmac",
        b"hush",
        {"x-shopify-hmac-sha256": "EvtX4sSa2qJwpxSx4H+xQR3N4rDiyrRKd7/y0LK+Ytw="},
        {"header": "x-shopify-hmac-sha256", "encoding": "base64"},
    ),
}
OF_A_LIBRARY = pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)


@OF_A_LIBRARY
def test_a_signature_of_the_library_is_accepted(vector: Vector) -> None:
    found = verifier(
        vector.scheme, [Key("1", vector.secret)], tolerance=300, options=vector.options
    )
    sent = SignedRequest(vector.sent, BODY)
    assert found.verify(sent, TIME) == "1"
    with pytest.raises(Unauthentic):
        found.verify(sent._replace(body=BODY[:-1]), TIME)


@OF_A_LIBRARY
def test_our_signature_equals_the_library_s(vector: Vector) -> None:
    found = verifier(
        vector.scheme, [Key("1", vector.secret)], tolerance=300, options=vector.options
    )
    assert found.sign(BODY, ID, TIME + 0.9) == vector.sent


# Python's base64 and Go's encoding/base64 write padding: a sign for each missing byte.
WRITTEN = {
    ("sha1", "base64"): "/d1AKz8PR8cw89c3aXairsJOj+0=",
    ("sha256", "base64"): "EvtX4sSa2qJwpxSx4H+xQR3N4rDiyrRKd7/y0LK+Ytw=",
    ("sha512", "base64"): (
        "9bpWcppQiMb8s3QdscOC7T6x/fNIOJeh6H4LeOYIxQlCEX3GzaZENcqNPsj0XZ/q9iwpcrRNYn0Aby8GJbbw/w=="
    ),
    ("sha1", "base64url"): "_d1AKz8PR8cw89c3aXairsJOj-0=",
    ("sha256", "base64url"): "EvtX4sSa2qJwpxSx4H-xQR3N4rDiyrRKd7_y0LK-Ytw=",
    ("sha512", "base64url"): (
        "9bpWcppQiMb8s3QdscOC7T6x_fNIOJeh6H4LeOYIxQlCEX3GzaZENcqNPsj0XZ_q9iwpcrRNYn0Aby8GJbbw_w=="
    ),
}


@pytest.mark.parametrize(("algorithm", "encoding"), WRITTEN)
def test_base64_is_written_with_padding_and_accepted_without(algorithm: str, encoding: str) -> None:
    options = {"header": "x-sig", "algorithm": algorithm, "encoding": encoding}
    found = verifier("hmac", [Key("1", b"hush")], tolerance=300, options=options)
    written = WRITTEN[algorithm, encoding]
    assert found.sign(BODY, ID, TIME) == {"x-sig": written}
    for given in (written, written.rstrip("=")):
        assert found.verify(SignedRequest({"x-sig": given}, BODY), TIME) == "1"
    with pytest.raises(Unauthentic):
        found.verify(SignedRequest({"x-sig": written.rstrip("=")[:-1] + "="}, BODY), TIME)
