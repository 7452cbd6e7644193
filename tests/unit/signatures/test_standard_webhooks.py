"""Standard Webhooks and Svix: the published vectors, lists of signatures, changes of keys."""

import base64
import hmac

import pytest

from inboxd.errors import SettingsError, UsageError
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

# The vector of the libraries of Standard Webhooks and of Svix ("sign function").
SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIME, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}'
V1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
NOW = 1614265330.0
# The pair of Svix' README; with it the specification's example of `v1a` was made, for the same
# message as above.
PRIVATE = (
    b"whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)
PUBLIC = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="
V1A = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
# A signature and a secret that match nothing here, from the libraries' tests.
WRONG = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
OTHER = b"whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def made(*keys: Key, scheme: str = "standard_webhooks") -> Verifier:
    return verifier(scheme, keys or (Key("a", SECRET),), tolerance=300)


def request(signature: str = V1, *, prefix: str = "webhook", **other: str) -> SignedRequest:
    headers = {"id": ID, "timestamp": TIME, "signature": signature, **other}
    return SignedRequest({f"{prefix}-{name}": value for name, value in headers.items()}, BODY)


# --------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(("scheme", "prefix"), [("standard_webhooks", "webhook"), ("svix", "svix")])
def test_the_vector_of_the_libraries_is_verified(scheme: str, prefix: str) -> None:
    found = made(scheme=scheme)
    sent = request(prefix=prefix)
    assert found.verify(sent, NOW) == "a"
    assert found.sign(BODY, ID, NOW + 0.9) == sent.headers
    assert found.signed_headers == set(sent.headers)
    assert found.default_dedup_key == f"header:{prefix}-id"
    other = request(prefix="svix" if prefix == "webhook" else "webhook")
    with pytest.raises(Malformed, match=f"no header {prefix}-id"):
        found.verify(other, NOW)


def test_the_asymmetric_example_of_the_specification_is_verified() -> None:
    by_public = made(Key("pair", public_key=PUBLIC))
    assert by_public.verify(request(V1A), NOW) == "pair"
    assert made(Key("pair", PRIVATE)).sign(BODY, ID, NOW) == request(V1A).headers
    assert made(Key("pair", PRIVATE)).verify(request(V1A), NOW) == "pair"
    with pytest.raises(Unauthentic):
        by_public.verify(request(V1A, id="msg_other"), NOW)
    with pytest.raises(UsageError, match=r"key 'pair' is a public key, which cannot sign"):
        by_public.sign(BODY, ID, NOW)


@pytest.mark.parametrize(
    ("text", "padding"),
    [
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", ""),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfI", "="),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwBr", "=="),
    ],
)
@pytest.mark.parametrize("prefix", ["", "whsec_"])
def test_secrets_may_have_a_prefix_and_padding(prefix: str, text: str, padding: str) -> None:
    """From the libraries' "signature verification with unpadded secret"."""
    whole = made(Key("a", f"{prefix}{text}{padding}".encode()))
    bare = made(Key("a", f"{prefix}{text}\n".encode()))
    raw = base64.b64decode(text + padding)
    digest = hmac.digest(raw, f"{ID}.{TIME}.".encode() + BODY, "sha256")
    sent = request("v1," + base64.b64encode(digest).decode())
    assert whole.sign(BODY, ID, NOW) == bare.sign(BODY, ID, NOW) == sent.headers
    assert whole.verify(sent, NOW) == bare.verify(sent, NOW) == "a"


# -------------------------------------------------------------------------- several signatures


@pytest.mark.parametrize(
    "signatures",
    [
        f"{WRONG} v2,x {V1} {WRONG}",
        f"{V1} {WRONG}",
        f"{V1A} {V1}",
        f"{V1}  {WRONG} ",
        f"nonsense , v1 {V1}",
    ],
)
def test_each_signature_of_the_list_is_tried(signatures: str) -> None:
    assert made().verify(request(signatures), NOW) == "a"


@pytest.mark.parametrize(
    "signatures",
    [
        WRONG,
        f"{WRONG} {WRONG}",
        V1[:-1],
        V1[:8],
        "v1,",
        V1A,
        V1.replace("v1,", "v1a,"),
        V1A.replace("v1a,", "v1,"),
        V1 + ",",
        "v1,ÿ",
    ],
)
def test_wrong_signatures_are_refused(signatures: str) -> None:
    with pytest.raises(Unauthentic):
        made().verify(request(signatures), NOW)
    with pytest.raises(Unauthentic):
        made(Key("pair", public_key=PUBLIC)).verify(
            request(signatures.replace(V1A, V1A[:-4] + "h==")), NOW
        )


@pytest.mark.parametrize(
    "signatures", ["", " ", "v2,x", "v1", V1[3:], V1.upper(), " ".join([V1] * 17), "\u0142"]
)
def test_a_list_without_signatures_or_with_too_many_is_malformed(signatures: str) -> None:
    with pytest.raises(Malformed):
        made().verify(request(signatures), NOW)


def test_a_sender_that_changes_its_key_signs_with_both() -> None:
    old, new = Key("old", SECRET, not_after=NOW), Key("new", OTHER, not_before=NOW - 60)
    pair = Key("pair", PRIVATE, not_before=NOW + 10)
    sender = made(old, new, pair)
    both = SignedRequest(sender.sign(BODY, ID, NOW), BODY)
    assert len(both.headers["webhook-signature"].split()) == 2
    assert made(Key("a", SECRET)).verify(both, NOW) == "a"
    assert made(Key("b", OTHER)).verify(both, NOW) == "b"
    assert sender.verify(both, NOW + 1) == "new"
    assert sender.verify(both, NOW - 61) == "old"
    later = SignedRequest(sender.sign(BODY, ID, NOW + 10), BODY)
    assert later.headers["webhook-signature"].split()[1].startswith("v1a,")
    assert made(Key("p", public_key=PUBLIC)).verify(later, NOW) == "p"
    # An expired secret does not keep the pair from being tried.
    over, counts = Key("over", SECRET, not_after=NOW - 1), Key("pair", public_key=PUBLIC)
    assert made(over, counts).verify(request(f"{V1} {V1A}"), NOW) == "pair"


@pytest.mark.parametrize("ids", ["ab", "ba"])
def test_the_first_of_two_matching_keys_is_named(ids: str) -> None:
    keys = {"a": Key("a", SECRET), "b": Key("b", OTHER)}
    found = made(*(keys[id_] for id_ in ids))
    sent = SignedRequest(found.sign(BODY, ID, NOW), BODY)
    assert found.verify(sent, NOW) == ids[0]


def test_a_pair_is_valid_between_its_times() -> None:
    found = made(Key("pair", public_key=PUBLIC, not_before=NOW, not_after=NOW + 60))
    assert found.verify(request(V1A), NOW) == found.verify(request(V1A), NOW + 60) == "pair"
    for now in (NOW - 0.1, NOW + 60.1):
        with pytest.raises(Unauthentic, match="'pair' made its signature, and is not valid now"):
            found.verify(request(V1A), now)


def test_one_pair_may_have_two_periods() -> None:
    early, late = (
        Key("early", public_key=PUBLIC, not_after=NOW),
        Key("late", public_key=PUBLIC, not_before=NOW + 10),
    )
    for keys in ((early, late), (late, early)):
        found = made(*keys)
        assert found.verify(request(V1A), NOW) == "early"
        assert found.verify(request(V1A), NOW + 10) == "late"


# ---------------------------------------------------------------------------------- id and time


@pytest.mark.parametrize("away", [300, -300])
def test_the_tolerance_is_inclusive(away: float) -> None:
    assert made().verify(request(), NOW + away) == "a"
    with pytest.raises(Malformed, match="more than 300 s"):
        made().verify(request(), NOW + away * 1.001)


@pytest.mark.parametrize("time", ["", "hello", "1614265330.0", "+1614265330", "٣", "9" * 20])
def test_a_time_in_another_form_is_malformed(time: str) -> None:
    with pytest.raises(Malformed, match="is not a time"):
        made().verify(request(timestamp=time), NOW)


def test_a_captured_request_cannot_be_split_at_another_place() -> None:
    """An id that ends with a time could be a part of another request."""
    body = b"1614265331.rest"
    sent = made().sign(body, ID, NOW)
    moved = {**sent, "webhook-id": f"{ID}.1614265330", "webhook-timestamp": "1614265331"}
    with pytest.raises(Malformed, match="is not an id"):
        made().verify(SignedRequest(moved, b"rest"), NOW)
    assert made().verify(SignedRequest(made().sign(BODY, "evt.v2.ab", NOW), BODY), NOW) == "a"
    with pytest.raises(Malformed, match="is not an id"):
        made().verify(request(id=""), NOW)


# ----------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("scheme", "length", "fits"),
    [
        *(("standard_webhooks", n, 24 <= n <= 64) for n in (0, 23, 24, 64, 65)),
        *(("svix", n, 24 <= n <= 75) for n in (23, 24, 75, 76)),
    ],
)
def test_secrets_must_have_the_length_of_the_specification(
    scheme: str, length: int, fits: bool
) -> None:
    key = Key("a", b"whsec_" + base64.b64encode(b"k" * length))
    if fits:
        assert made(key, scheme=scheme).sign(BODY, ID, NOW)
    else:
        with pytest.raises(SettingsError, match=rf"key 'a': its secret has {length} bytes"):
            made(key, scheme=scheme)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key("a", b""), "its secret is empty"),
        (Key("a", b"whsec_not base64"), "its secret is not base64"),
        (Key("a", b"whsec_\xff"), "its secret is not base64"),
        (Key("a", PUBLIC.encode()), "that is a public key: give it as public_key"),
        (Key("a", public_key="whsec_x"), "its public key is not base64"),
        (Key("a", public_key="whpk_\u0142"), "its public key is not base64"),
        (Key("a", public_key="whpk_AAAA"), "its public key has 3 bytes, not 32"),
        (Key("a", SECRET, public_key=PUBLIC), "has a secret and a public key"),
        (Key("a", PRIVATE[:-4]), "has 63 bytes, not 32"),
        (Key("a", PRIVATE.replace(b"X0dR", b"aaaa")), "are not a pair"),
    ],
)
def test_an_invalid_key_is_refused_with_its_id(key: Key, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(key)
    assert str(refused.value).startswith("key 'a'")
    assert message in str(refused.value)


def test_an_option_of_this_scheme_is_refused() -> None:
    with pytest.raises(SettingsError, match="no option 'header'; it has: none"):
        verifier("svix", [Key("a", SECRET)], tolerance=300, options={"header": "x"})
