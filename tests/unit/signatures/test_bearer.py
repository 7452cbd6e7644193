"""A token in a header."""

import pytest

from inboxd.errors import SettingsError
from inboxd.signatures import Key, Malformed, SignedRequest, Unauthentic, Verifier, verifier

TOKEN = b"mF_9.B5f-4.1JqM-mF_9.B5f"  # it begins like the example of RFC 6750
NOW = 1_700_000_000.0


def made(*keys: Key, **options: str) -> Verifier:
    return verifier("bearer", keys or (Key("a", TOKEN),), tolerance=300, options=options)


def verified(found: Verifier, value: str, header: str = "authorization") -> str:
    return found.verify(SignedRequest({header: value}, b"{}"), NOW)


def test_a_token_in_the_authorization_header_is_accepted() -> None:
    assert verified(made(), "Bearer mF_9.B5f-4.1JqM-mF_9.B5f") == "a"
    assert verified(made(), "bearer mF_9.B5f-4.1JqM-mF_9.B5f") == "a"
    assert made().sign(b"", "", NOW) == {"authorization": "Bearer mF_9.B5f-4.1JqM-mF_9.B5f"}
    assert (made().default_dedup_key, made().doubts) == (None, ())


@pytest.mark.parametrize(
    "value",
    [
        *("", "Bearer", "Bearer ", "Basic mF_9.B5f-4.1JqM-mF_9.B5f", "mF_9.B5f-4.1JqM-mF_9.B5f"),
        *("Bearer  mF_9.B5f-4.1JqM-mF_9.B5f", "Bearer mF_9.B5f-4.1JqM-mF_9.B5", "Bearer ÿ"),
    ],
)
def test_another_token_is_refused(value: str) -> None:
    with pytest.raises(Unauthentic):
        verified(made(), value)
    with pytest.raises(Unauthentic, match="no token in its authorization"):
        made().verify(SignedRequest({}, b"{}"), NOW)


def test_a_value_with_forbidden_characters_is_malformed() -> None:
    with pytest.raises(Malformed):
        verified(made(), "Bearer \u0142")


def test_a_sender_s_own_header_is_secret_too() -> None:
    gitlab = made(header="X-Gitlab-Token")
    assert verified(gitlab, TOKEN.decode(), "x-gitlab-token") == "a"
    with pytest.raises(Unauthentic, match="it has no token in its x-gitlab-token"):
        verified(gitlab, "", "x-gitlab-token")
    assert gitlab.secret_headers == {"authorization", "x-gitlab-token"}
    assert gitlab.signed_headers == made().signed_headers == frozenset()
    basic = made(Key("a", b"dXNlcjpwYXNzd29yZA=="), prefix="Basic ")
    assert verified(basic, "Basic dXNlcjpwYXNzd29yZA==") == "a"


def test_several_tokens_are_valid_between_their_times() -> None:
    old, new = Key("old", b"1" * 16, not_after=NOW), Key("new", b"2" * 16, not_before=NOW + 1)
    found = made(new, old)
    assert verified(found, "Bearer " + "1" * 16) == "old"
    with pytest.raises(Unauthentic, match="'new' made its signature, and is not valid now"):
        verified(found, "Bearer " + "2" * 16)
    assert found.sign(b"", "", NOW + 1) == {"authorization": "Bearer " + "2" * 16}


def test_a_short_token_is_doubted_and_an_empty_one_refused() -> None:
    (doubt,) = made(Key("a", b"letmein")).doubts
    assert "key 'a': its token has less than 16 bytes" in doubt
    assert "letmein" not in doubt
    with pytest.raises(SettingsError, match="its secret is empty"):
        made(Key("a", b""))
