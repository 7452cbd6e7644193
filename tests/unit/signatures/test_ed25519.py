"""Key pairs: the vectors of RFC 8032, and a missing library."""

import base64
import sys
from typing import Any, cast

import pytest

from inboxd.errors import SettingsError
from inboxd.signatures import Key, verifier
from inboxd.signatures.ed25519 import KeyPairs

# RFC 8032, section 7.1, TEST 1 to 3: private key, public key, message, signature.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
            "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da0"
            "85ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac1"
            "8ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


def written(prefix: str, text: str) -> str:
    return prefix + base64.b64encode(bytes.fromhex(text)).decode()


@pytest.mark.parametrize(("private", "public", "signed", "signature"), RFC_8032)
def test_the_vectors_of_rfc_8032_are_verified(
    private: str, public: str, signed: str, signature: str
) -> None:
    key = Key("a", public_key=written("whpk_", public))
    sender = Key("b", written("whsk_", private).encode())
    what, right = bytes.fromhex(signed), written("", signature)
    pairs = KeyPairs([key])
    assert KeyPairs([sender]).signatures(what, [sender]) == [right]
    assert pairs.found(what, [b"", right.encode()], 0) == key
    assert pairs.found(what + b".", [right.encode()], 0) is None
    # Another base64 form of the same bytes is refused: no sender writes it.
    assert right.endswith("==")
    loose = right[:-3] + chr(ord(right[-3]) + 1) + "=="
    assert base64.b64decode(loose) == base64.b64decode(right)
    assert pairs.found(what, [loose.encode()], 0) is None


class Counting:
    """A public key that counts its verifications."""

    def __init__(self, public: Any, verified: list[bytes]) -> None:
        self._public, self._verified = public, verified

    def verify(self, signature: bytes, signed: bytes) -> None:
        self._verified.append(signature)
        self._public.verify(signature, signed)


@pytest.mark.parametrize("count", [1, 3])
def test_forged_signatures_cost_two_verifications_per_key(count: int) -> None:
    """Each verification reads the whole body: 16 signatures with 3 keys took 0.7 s per MiB."""
    pairs = KeyPairs(
        [Key(f"{each}", public_key=written("whpk_", RFC_8032[each][1])) for each in range(count)]
    )
    verified: list[bytes] = []
    pairs._keys = [
        (key, cast("Any", Counting(public, verified)), own) for key, public, own in pairs._keys
    ]
    wrong = [base64.b64encode(bytes([each]) * 64) for each in range(16)]
    assert pairs.found(b"body", wrong, 0) is None
    assert len(verified) == 2 * count
    verified.clear()
    assert pairs.found(b"body", wrong[:1] * 16, 0) is None
    assert len(verified) == count, "a repeated signature is verified once"


@pytest.mark.parametrize(
    ("keys", "size", "is_long"),
    [
        (1, 1_000, False),
        (1, 500_000, False),
        (1, 1 << 20, True),
        (3, 400_000, True),
        (20, 10, True),
    ],
)
def test_time_of_a_verification_grows_with_keys_and_body(
    keys: int, size: int, is_long: bool
) -> None:
    """Above 5 ms the receiver verifies in a thread."""
    known = [Key(f"{n}", public_key=written("whpk_", RFC_8032[0][1])) for n in range(keys)]
    made = verifier("standard_webhooks", known, tolerance=300)
    assert (made.seconds(size) > 0.005) is is_long


def test_two_signatures_of_a_sender_that_changes_its_key_are_accepted() -> None:
    """Either may come first, and either key may be known; an expired key is named in the error."""
    (_, first, _, _), (other, public, _, _) = RFC_8032[:2]
    sender = Key("b", written("whsk_", other).encode())
    (right,) = KeyPairs([sender]).signatures(b"body", [sender])
    stranger = base64.b64encode(bytes(64))
    known, old = (
        Key("new", public_key=written("whpk_", public)),
        Key("old", public_key=written("whpk_", first)),
    )
    for given in ([stranger, right.encode()], [right.encode(), stranger]):
        assert KeyPairs([old, known]).found(b"body", given, 0) == known
    ended = Key("ended", not_after=1, public_key=written("whpk_", public))
    assert KeyPairs([ended, known]).found(b"body", [right.encode()], 2) == known
    assert KeyPairs([ended, old]).found(b"body", [right.encode()], 2) == ended


def test_a_missing_library_is_reported_with_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported = [each for each in sys.modules if each.partition(".")[0] == "cryptography"]
    for name in ("cryptography", *imported):
        monkeypatch.setitem(sys.modules, name, None)
    key = Key("a", public_key=written("whpk_", RFC_8032[0][1]))
    with pytest.raises(SettingsError) as refused:
        verifier("standard_webhooks", [key], tolerance=300)
    assert "pip install 'inboxd[ed25519]'" in str(refused.value)
    assert "\n" not in str(refused.value)
    # Settings with secrets only do not need the library.
    secret = Key("b", b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert verifier("standard_webhooks", [secret], tolerance=300).sign(b"", "msg_1", 0)
