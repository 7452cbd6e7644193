"""All schemes: a request that was not signed is refused, with one of two errors."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

NOW = 1_700_000_000.0
BODY = b'{"id": 7}'
ID = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"
PAIR = (
    b"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
WHSEC = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Case(NamedTuple):
    """A scheme with a key that can sign."""

    scheme: str
    key: Key
    options: dict[str, Any]
    # Authenticated headers; hexadecimal digits may be of either case.
    signed: tuple[str, ...]
    is_body_signed: bool = True


CASES = {
    "standard": Case(
        "standard_webhooks",
        Key("a", WHSEC),
        {},
        ("webhook-id", "webhook-timestamp", "webhook-signature"),
    ),
    "pair": Case(
        "standard_webhooks",
        Key("a", PAIR),
        {},
        ("webhook-id", "webhook-timestamp", "webhook-signature"),
    ),
    "svix": Case("svix", Key("a", WHSEC), {}, ("svix-id", "svix-timestamp", "svix-signature")),
    "stripe": Case("stripe", Key("a", b"whsec_test_secret"), {}, ("stripe-signature",)),
    "github": Case("github", Key("a", b"secret"), {}, ("x-hub-signature-256",)),
    "hex": Case(
        "hmac",
        Key("a", b"secret"),
        {
            "header": "x-sig",
            "prefix": "v0=",
            "template": "v0:{timestamp}:{id}:{body}",
            "timestamp_header": "x-time",
            "id_header": "x-id",
        },
        ("x-sig", "x-time", "x-id"),
    ),
    "base64url": Case(
        "hmac",
        Key("a", b"secret"),
        {"header": "x-sig", "encoding": "base64url", "algorithm": "sha512"},
        ("x-sig",),
    ),
    "bearer": Case("bearer", Key("a", b"mF_9.B5f-4.1JqM"), {}, ("authorization",), False),
    "certificate": Case(
        "client_certificate", Key("a", b"CN=a,O=b"), {"header": "x-cn"}, ("x-cn",), False
    ),
}
OF_A_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def made(case: Case) -> Verifier:
    return verifier(case.scheme, [case.key], tolerance=300, options=case.options)


def refused(found: Verifier, request: SignedRequest) -> bool:
    try:
        found.verify(request, NOW)
    except (Unauthentic, Malformed):
        return True
    return False


def flips(data: bytes) -> Iterator[bytes]:
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


@OF_A_CASE
def test_one_flipped_bit_is_refused(case: Case) -> None:
    found = made(case)
    sent = SignedRequest(found.sign(BODY, ID, NOW), BODY, "/in/a", from_trusted_proxy=True)
    assert found.verify(sent, NOW) == "a"
    if case.is_body_signed:
        assert all(refused(found, sent._replace(body=body)) for body in flips(BODY))
        assert refused(found, sent._replace(body=b""))
        assert refused(found, sent._replace(body=BODY + b"\n"))
    for name in case.signed:
        value = sent.headers[name]
        passed = [
            text
            for flipped in flips(value.encode("latin-1"))
            if not refused(
                found,
                sent._replace(headers={**sent.headers, name: (text := flipped.decode("latin-1"))}),
            )
        ]
        assert [text for text in passed if text.lower() != value.lower()] == []
        assert not passed or case.scheme in {"github", "hmac", "bearer"}
        assert refused(
            found,
            sent._replace(headers={k: v for k, v in sent.headers.items() if k != name}),
        )


TEXTS = st.text() | st.text(st.characters(max_codepoint=255), max_size=60)
PIECES = st.sampled_from(
    [
        *("v1,", "v1a,", "v1=", "t=", "v0=", "sha256=", "Bearer ", " ", ",", "=", "1700000000"),
        *("0" * 64, "A" * 43 + "=", "A" * 86 + "==", "CN=a", "ÿ", "\x00", "٣"),
    ]
)
VALUES = TEXTS | st.lists(PIECES | TEXTS, max_size=8).map("".join)


@OF_A_CASE
@given(data=st.data())
def test_an_unsigned_request_is_refused(case: Case, data: st.DataObject) -> None:
    found = made(case)
    sent = found.sign(BODY, ID, NOW)
    names = data.draw(st.sets(st.sampled_from(sorted(case.signed)), min_size=1))
    headers = {**sent, **{name: data.draw(VALUES) for name in names}}
    body = data.draw(st.just(BODY) | st.binary(max_size=50))
    trusted = data.draw(st.booleans())
    if any(headers[name] != sent[name] for name in case.signed):
        assert refused(found, SignedRequest(headers, body, "/in/a", trusted))


@OF_A_CASE
@given(body=st.binary(max_size=200), id_=st.from_regex(r"[a-z]+_[A-Za-z0-9]+", fullmatch=True))
def test_a_signed_request_is_accepted(case: Case, body: bytes, id_: str) -> None:
    found = made(case)
    sent = SignedRequest(found.sign(body, id_, NOW), body, "/in/a", from_trusted_proxy=True)
    assert found.verify(sent, NOW) == "a"


@OF_A_CASE
def test_the_matching_key_is_named_at_any_place_of_the_list(case: Case) -> None:
    text = case.key.secret.replace(b"MfKQ", b"NfKQ").replace(b"secret", b"tecret")
    if text == case.key.secret:
        text = b"whsec_" + b"QUFB" * 10 if text.startswith(b"whsk_") else text[:-1] + b"x"
    other = Key("b", text)
    found, options = made(case), case.options
    sent = SignedRequest(found.sign(BODY, ID, NOW), BODY, "/in/a", from_trusted_proxy=True)
    strange = verifier(case.scheme, [other], tolerance=300, options=options)
    with pytest.raises(Unauthentic, match="no key of this source"):
        strange.verify(sent, NOW)
    for keys in ([case.key, other], [other, case.key]):
        both = verifier(case.scheme, keys, tolerance=300, options=options)
        assert both.verify(sent, NOW) == "a"


@OF_A_CASE
def test_stored_headers_have_no_secret(case: Case) -> None:
    found = made(case)
    assert not found.signed_headers & found.secret_headers
    assert "authorization" in found.secret_headers
    sent = found.sign(BODY, ID, NOW)
    assert {*sent} <= found.signed_headers | found.secret_headers
    assert all(name == name.lower() for name in {*sent, *found.signed_headers})
