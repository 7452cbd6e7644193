"""No secret is in a repr, in a message, or in the log of an error."""

import traceback
from typing import Any

import pytest

from inboxd.errors import InboxdError, SettingsError
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, verifier

SECRET = "c3VwZXItc2VjcmV0LXRoYXQtbm9ib2R5LXNob3VsZC1zZWU"
SCHEMES: dict[str, dict[str, Any]] = {
    "standard_webhooks": {},
    "svix": {},
    "stripe": {},
    "github": {},
    "hmac": {"header": "x-sig", "secret_encoding": "base64"},
    "bearer": {},
    "client_certificate": {"header": "x-cn"},
}


def shown(error: BaseException) -> str:
    return f"{error} {error!r} {''.join(traceback.format_exception(error))}"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_reprs_of_verifiers_and_keys_have_no_secret(scheme: str) -> None:
    key = Key("a", SECRET.encode())
    found = verifier(scheme, [key], tolerance=300, options=SCHEMES[scheme])
    sent = {name: f"{value[:-4]}AAAA" for name, value in found.sign(b"{}", "m", 0).items()}
    texts = [repr(key), str(key), repr(found), str(found), repr(found.doubts)]
    for headers in (sent, {}, dict.fromkeys(sent, ""), dict.fromkeys(sent, SECRET)):
        with pytest.raises((Unauthentic, Malformed)) as refused:
            found.verify(SignedRequest(headers, b"{}"), 0)
        texts.append(shown(refused.value))
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "bad",
    [
        Key("a", f"{SECRET}!".encode()),
        Key("a", SECRET.encode() * 3),
        Key("a", f"whpk_{SECRET}".encode()),
        Key("a", f"whsk_{SECRET}".encode()),
        Key("a", SECRET.encode(), not_before=2, not_after=1),
        Key("a", SECRET.encode(), public_key=SECRET),
    ],
)
def test_an_invalid_key_is_not_quoted(scheme: str, bad: Key) -> None:
    error: InboxdError = SettingsError("it fits")
    try:
        verifier(scheme, [bad], tolerance=300, options=SCHEMES[scheme])
    except SettingsError as refused:
        error = refused
    assert SECRET not in shown(error)
    assert "\n" not in str(error)
