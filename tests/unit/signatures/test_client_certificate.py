"""The client certificate that a trusted proxy reports in a header."""

from typing import Any

import pytest

from inboxd.errors import SettingsError
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

NOW = 1_700_000_000.0
SUBJECT = "CN=sender.example,O=Sender"
PRINT = "5E:88:48:98:DA:28:04:71:51:D0:E5:6F:8D:C6:29:27:73:60:3D:0D"


def made(*keys: Key, **options: Any) -> Verifier:
    given = {"header": "X-Client-Subject", "subjects": [SUBJECT], **options}
    return verifier("client_certificate", keys, tolerance=300, options=given)


def sent(subject: str = SUBJECT, *, trusted: bool = True) -> SignedRequest:
    return SignedRequest({"x-client-subject": subject}, b"{}", "/in/a", trusted)


def test_a_subject_of_the_list_is_its_own_key() -> None:
    found = made()
    assert found.verify(sent(), NOW) == SUBJECT
    assert found.sign(b"{}", "", NOW) == {"x-client-subject": SUBJECT}
    assert found.signed_headers == {"x-client-subject"}


def test_the_header_counts_only_from_a_trusted_proxy() -> None:
    with pytest.raises(Unauthentic, match="did not come through a trusted proxy"):
        made().verify(sent(trusted=False), NOW)
    with pytest.raises(Unauthentic, match="trusted proxy"):
        made().verify(SignedRequest({"x-client-subject": SUBJECT}, b"{}"), NOW)


@pytest.mark.parametrize(
    "subject", ["", "CN=sender.example", SUBJECT + " ", SUBJECT.lower(), f"{SUBJECT}, {SUBJECT}"]
)
def test_another_subject_is_refused(subject: str) -> None:
    with pytest.raises(Unauthentic):
        made().verify(sent(subject), NOW)


def test_a_missing_certificate_is_refused_and_a_bad_header_malformed() -> None:
    with pytest.raises(Unauthentic, match="no client certificate: x-client-subject is empty"):
        made().verify(SignedRequest({}, b"{}", from_trusted_proxy=True), NOW)
    with pytest.raises(Malformed):
        made().verify(sent("\u0142"), NOW)


@pytest.mark.parametrize("configured", [PRINT, PRINT.lower().replace(":", "")])
def test_a_fingerprint_may_have_colons(configured: str) -> None:
    found = made(subjects=[configured])
    for given in (PRINT, PRINT.lower(), PRINT.replace(":", "")):
        assert found.verify(sent(given), NOW) == configured
    with pytest.raises(Unauthentic):
        found.verify(sent(PRINT.replace("5E", "5F")), NOW)
    assert made(subjects=["ab" * 32]).verify(sent("AB" * 32), NOW) == "ab" * 32


def test_keys_with_times_allow_a_change_of_certificates() -> None:
    old, new = Key("old", b"11" * 20, not_after=NOW), Key("new", b"22" * 20)
    found = made(new, old, subjects=[])
    assert found.verify(sent("11" * 20), NOW) == "old"
    assert found.verify(sent("22" * 20), NOW) == "new"
    with pytest.raises(Unauthentic, match="'old' made its signature, and is not valid now"):
        found.verify(sent("11" * 20), NOW + 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": None}, "header is missing"),
        ({"subjects": []}, "keys is empty"),
        ({"subjects": SUBJECT}, "subjects is not a list"),
        ({"subjects": [7]}, "subjects is not a list"),
        ({"subjects": ["\u0142"]}, "characters that are not allowed in a header"),
        ({"subject": "x"}, "did you mean 'subjects'"),
    ],
)
def test_invalid_options_are_reported_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        made(**options)
