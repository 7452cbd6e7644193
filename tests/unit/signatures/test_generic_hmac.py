"""An HMAC in a header: GitHub's, the vectors of RFC 4231, and templates of other senders."""

import base64
import hmac
from typing import Any

import pytest

from inboxd.errors import SettingsError, UsageError
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

NOW = 1_700_000_000.0
BODY = b'{"id": 7}'
SLACK = {
    "header": "X-Slack-Signature",
    "prefix": "v0=",
    "template": "v0:{timestamp}:{body}",
    "timestamp_header": "X-Slack-Request-Timestamp",
}


def made(options: dict[str, Any], *keys: Key, tolerance: float = 300) -> Verifier:
    return verifier("hmac", keys or (Key("a", b"secret"),), tolerance=tolerance, options=options)


def request(headers: dict[str, str], body: bytes = BODY) -> SignedRequest:
    return SignedRequest(headers, body, "/in/a")


# --------------------------------------------------------------------------------------- vectors


def test_the_documented_example_of_github_is_verified() -> None:
    """The example of docs.github.com, "Validating webhook deliveries"."""
    github = verifier("github", [Key("a", b"It's a Secret to Everybody")], tolerance=300)
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    sent = SignedRequest({"x-hub-signature-256": signature}, b"Hello, World!")
    assert github.verify(sent, NOW) == "a"
    assert github.sign(b"Hello, World!", "7f3c", NOW) == {
        "x-hub-signature-256": signature,
        "x-github-delivery": "7f3c",
    }
    assert github.default_dedup_key == "header:x-github-delivery"
    with pytest.raises(Unauthentic):
        github.verify(sent._replace(body=b"Hello, World"), NOW)


# RFC 4231, test cases 1 to 4, 6 and 7: key, data, HMAC-SHA-256, HMAC-SHA-512.
RFC_4231 = [
    (
        b"\x0b" * 20,
        b"Hi There",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        (
            "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde"
            "daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854"
        ),
    ),
    (
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        (
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554"
            "9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737"
        ),
    ),
    (
        b"\xaa" * 20,
        b"\xdd" * 50,
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
        (
            "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39"
            "bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb"
        ),
    ),
    (
        bytes(range(1, 26)),
        b"\xcd" * 50,
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        (
            "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db"
            "a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd"
        ),
    ),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        (
            "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
            "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598"
        ),
    ),
    (
        b"\xaa" * 131,
        (
            b"This is a test using a larger than block-size key and a larger than block-size data. "
            b"The key needs to be hashed before being used by the HMAC algorithm."
        ),
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        (
            "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944"
            "b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58"
        ),
    ),
]


@pytest.mark.parametrize(("secret", "data", "sha256", "sha512"), RFC_4231)
def test_the_vectors_of_rfc_4231_are_verified(
    secret: bytes, data: bytes, sha256: str, sha512: str
) -> None:
    for algorithm, digest in (("sha256", sha256), ("sha512", sha512)):
        for encoding, text in (
            ("hex", digest),
            ("hex", digest.upper()),
            ("base64", base64.b64encode(bytes.fromhex(digest)).decode()),
            ("base64url", base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")),
        ):
            options = {"header": "x-sig", "algorithm": algorithm, "encoding": encoding}
            found = made(options, Key("a", secret))
            assert found.verify(request({"x-sig": text}, data), NOW) == "a"
            with pytest.raises(Unauthentic):
                found.verify(request({"x-sig": text}, data + b"."), NOW)


@pytest.mark.parametrize(("encoding", "form"), [("base64", base64.b64encode), ("hex", None)])
def test_a_secret_may_be_in_base64_or_hexadecimal(encoding: str, form: Any) -> None:
    raw = bytes(range(32))
    written = form(raw) if form else raw.hex().encode()
    found = made({"header": "x-sig", "secret_encoding": encoding}, Key("a", written))
    digest = hmac.digest(raw, BODY, "sha256").hex()
    assert found.verify(request({"x-sig": digest}), NOW) == "a"
    with pytest.raises(SettingsError, match=r"key 'a': its secret is not"):
        made({"header": "x-sig", "secret_encoding": encoding}, Key("a", b"!?"))


# ------------------------------------------------------------------------------------- templates


def test_the_documented_example_of_slack_is_verified() -> None:
    """The example of docs.slack.dev, "Verifying requests from Slack"."""
    slack = made(SLACK, Key("a", b"8f742231b10e8888abcd99yyyzzz85a5"))
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
        b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
        b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
        b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "x-slack-request-timestamp": "1531420618",
    }
    assert slack.verify(request(headers, body), 1531420618.0) == "a"
    assert slack.sign(body, "", 1531420618.5) == headers
    assert slack.signed_headers == set(headers)


def test_a_template_may_have_fixed_text_and_an_id() -> None:
    options = {
        "header": "x-sig",
        "template": "100%{{}}:{id}|{body}|{timestamp}",
        "timestamp_header": "x-time",
        "id_header": "X-Id",
    }
    found = made(options)
    sent = found.sign(BODY, "m-1", NOW)
    signed = b"100%{}:m-1|" + BODY + b"|1700000000"
    assert sent["x-sig"] == hmac.digest(b"secret", signed, "sha256").hex()
    assert found.verify(request(sent), NOW) == "a"
    assert found.default_dedup_key == "header:x-id"
    for name in ("x-time", "x-id"):
        with pytest.raises(Unauthentic):
            found.verify(request({**sent, name: sent[name][:-1] + "2"}), NOW)


def test_a_time_in_milliseconds_is_accepted() -> None:
    slack = made(SLACK)
    digest = hmac.digest(b"secret", b"v0:1700000000123:" + BODY, "sha256").hex()
    headers = {
        "x-slack-signature": f"v0={digest}",
        "x-slack-request-timestamp": "1700000000123",
    }
    assert slack.verify(request(headers), NOW) == "a"
    with pytest.raises(Malformed, match="which is more than 300 s"):
        slack.verify(request(headers), NOW + 301)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "header is missing"),
        ({"header": "x y"}, "not the name of a header"),
        ({"header": 7}, "header is int: give text"),
        ({"header": "x", "algoritm": "sha256"}, "did you mean 'algorithm'"),
        ({"header": "x", "algorithm": "md5"}, "give one of sha256, sha512, sha1"),
        ({"header": "x", "encoding": "ascii"}, "give one of hex, base64, base64url"),
        ({"header": "x", "template": "{timestamp}"}, "{body} is missing"),
        ({"header": "x", "template": "{body}{path}"}, "{path} is not known"),
        ({"header": "x", "template": "{body!r}"}, "{body} is not known"),
        ({"header": "x", "template": "{body"}, "write {{ and }} for braces"),
        ({"header": "x", "template": "{timestamp}.{body}"}, "timestamp_header is missing"),
        ({"header": "x", "template": "{id}.{body}"}, "id_header is missing"),
        ({"header": "x", "timestamp_header": "y"}, "the template does not sign it"),
    ],
)
def test_invalid_options_are_reported_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_options_that_are_none_count_as_unset() -> None:
    assert made({"header": "x-sig", "encoding": None, "template": None}).sign(BODY, "", NOW)


def test_sha1_causes_a_doubt() -> None:
    assert made({"header": "x", "algorithm": "sha256"}).doubts == ()
    (doubt,) = made({"header": "x", "algorithm": "sha1"}).doubts
    assert "ask the sender for sha256" in doubt


# ----------------------------------------------------------------------- signatures and headers


def test_each_signature_of_the_header_is_tried() -> None:
    found = made({"header": "x-sig", "prefix": "v1="})
    right = found.sign(BODY, "", NOW)["x-sig"]
    wrong = "v1=" + "0" * 64
    for given in (f"{wrong}, {right}", f"{right},{wrong}", f"v0=x,{right}"):
        assert found.verify(request({"x-sig": given}), NOW) == "a"
    with pytest.raises(Malformed):
        found.verify(request({"x-sig": ",".join([right] * 17)}), NOW)


def test_a_prefix_may_have_a_comma() -> None:
    found = made({"header": "x-sig", "prefix": "v1,"})
    assert found.verify(request(found.sign(BODY, "", NOW)), NOW) == "a"


@pytest.mark.parametrize("given", ["", "v0=aa", "aa", "=", ",,,", "ÿ", "\u0142"])
def test_a_header_in_another_form_is_malformed(given: str) -> None:
    with pytest.raises(Malformed):
        made({"header": "x-sig", "prefix": "v1="}).verify(request({"x-sig": given}), NOW)


def test_a_missing_header_is_malformed() -> None:
    slack = made(SLACK)
    sent = slack.sign(BODY, "", NOW)
    for name in sent:
        with pytest.raises(Malformed, match=f"no header {name}"):
            slack.verify(request({k: v for k, v in sent.items() if k != name}), NOW)


@pytest.mark.parametrize(
    "time", ["", " 1700000000", "-1700000000", "1e9", "\u0661\u0667", "9" * 14, "1.0"]
)
def test_a_time_in_another_form_is_malformed(time: str) -> None:
    slack = made(SLACK)
    sent = slack.sign(BODY, "", NOW) | {"x-slack-request-timestamp": time}
    with pytest.raises(Malformed, match="not a time"):
        slack.verify(request(sent), NOW)


@pytest.mark.parametrize("away", [300, -300])
def test_the_tolerance_is_inclusive(away: float) -> None:
    slack = made(SLACK)
    sent = slack.sign(BODY, "", NOW)
    assert slack.verify(request(sent), NOW + away) == "a"
    with pytest.raises(Malformed, match="more than 300 s"):
        slack.verify(request(sent), NOW + away * 1.001)


# ------------------------------------------------------------------------------------------ keys


def test_keys_are_valid_between_their_times() -> None:
    old, new = Key("old", b"1", not_after=NOW), Key("new", b"2", not_before=NOW - 60)
    both = made({"header": "x-sig"}, new, old)
    by_old = made({"header": "x-sig"}, Key("old", b"1")).sign(BODY, "", NOW)
    by_new = made({"header": "x-sig"}, Key("new", b"2")).sign(BODY, "", NOW)
    assert both.verify(request(by_old), NOW) == "old"
    assert both.verify(request(by_new), NOW - 60) == "new"
    with pytest.raises(Unauthentic, match="the key 'old' made its signature, and is not valid now"):
        both.verify(request(by_old), NOW + 0.1)
    with pytest.raises(Unauthentic, match="'new'"):
        both.verify(request(by_new), NOW - 60.1)
    assert both.sign(BODY, "", NOW) == by_new
    assert both.sign(BODY, "", NOW - 61) == by_old


def test_one_secret_may_have_two_periods() -> None:
    early, late = Key("early", b"1", not_after=NOW), Key("late", b"1", not_before=NOW + 10)
    found = made({"header": "x-sig"}, early, late)
    sent = request(found.sign(BODY, "", NOW))
    assert (found.verify(sent, NOW), found.verify(sent, NOW + 10)) == ("early", "late")
    with pytest.raises(Unauthentic):
        found.verify(sent, NOW + 5)
    with pytest.raises(UsageError, match="no key is valid now: 'early', 'late'"):
        found.sign(BODY, "", NOW + 5)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "keys is empty"),
        ([Key("", b"x")], "empty id"),
        ([Key("a", b"x"), Key("a", b"y")], "two keys have the id 'a'"),
        ([Key("a", b"")], "key 'a': its secret is empty"),
        ([Key("a", b"x", not_before=2, not_after=1)], "not_after is before its not_before"),
        ([Key("a", public_key="whpk_x")], "key 'a': this scheme has no public keys"),
    ],
)
def test_invalid_keys_are_refused_with_their_id(keys: list[Key], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        verifier("hmac", keys, tolerance=300, options={"header": "x"})


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"scheme 'githib' is not known; did you mean 'github'"):
        verifier("githib", [Key("a", b"x")], tolerance=300)


# Template; the signed id, time and body; and other ways to split the same bytes.
SPLICED = [
    (
        "{id}.{timestamp}.{body}",
        ("a", 1_700_000_000, b"1700000001.x"),
        ("a.1700000000", 1_700_000_001, b"x"),
    ),
    ("{id}{timestamp}.{body}", ("a", 1_700_000_000_000, b"x"), ("a170", 0, b"x")),
    ("{timestamp}{body}", ("", 1_700_000_000_123, b"{}"), ("", 1_700_000_000, b"123{}")),
    ("{timestamp}{id}:{body}", ("", 1_700_000_000_123, b"x"), ("123", 1_700_000_000, b"x")),
    ("{body}{timestamp}", ("", 1_700_000_000_123, b"{}"), ("", 1_700_000_000, b"{}170")),
]


@pytest.mark.parametrize(("template", "signed", "cut"), SPLICED)
def test_the_same_bytes_split_at_another_place_are_refused(
    template: str, signed: tuple[str, int, bytes], cut: tuple[str, int, bytes]
) -> None:
    """A captured request could otherwise be sent in part, under another id or time."""
    options = {"header": "x-signature", "template": template, "timestamp_header": "x-time"}
    if "{id}" in template:
        options["id_header"] = "x-id"
    bytes_ = template.format(id=signed[0], timestamp=signed[1], body=signed[2].decode()).encode()
    signature = hmac.digest(b"secret", bytes_, "sha256").hex()
    id_, time, body = cut
    headers = {"x-signature": signature, "x-time": str(time), "x-id": id_}
    with pytest.raises((Malformed, Unauthentic)):
        made(options).verify(request(headers, body), NOW)


@pytest.mark.parametrize("template", sorted({each[0] for each in SPLICED}))
@pytest.mark.parametrize("id_", ["evt_1a", "a.b", "a.1b"])
def test_ids_and_bodies_that_cannot_be_a_time_are_accepted(template: str, id_: str) -> None:
    options = {"header": "x-signature", "template": template, "timestamp_header": "x-time"}
    if "{id}" in template:
        options["id_header"] = "x-id"
    found = made(options)
    sent = {name.lower(): value for name, value in found.sign(BODY, id_, NOW).items()}
    assert found.verify(request(sent), NOW) == "a"
