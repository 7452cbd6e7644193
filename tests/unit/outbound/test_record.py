"""A recorded answer has none of the sent secrets, in any form in which a target repeats them."""

import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.outbound.client import TargetAnswer
from inboxd.outbound.record import Recorder

SECRET = 'sk "live"/päss&word'


def _answer(
    body: bytes, headers: dict[str, str] | None = None, *, cut: bool = False
) -> TargetAnswer:
    return TargetAnswer(200, headers or {}, body, cut=cut, seconds=0.1234)


@pytest.mark.parametrize(
    "written",
    [
        *(SECRET, json.dumps(SECRET), json.dumps(SECRET).replace("/", "\\/")),
        *(quote(SECRET), quote(SECRET, safe=""), quote_plus(SECRET)),
    ],
)
def test_a_secret_is_redacted_in_every_form(written: str) -> None:
    body = Recorder([SECRET]).record(_answer(f"before {written} after".encode()))["body"]
    assert "live" not in body
    assert body.startswith("before ")
    assert body.endswith(" after")


@pytest.mark.parametrize("before", ["", "a", "ab", "authorization: Bearer "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_redacted_in_encoded_text(before: str, encode: Any) -> None:
    """A target may show the request's headers in base64, or in another form."""
    secret = "sk_Live?>~0123456789"
    for more in ("", "x", "xy", '"}'):
        whole = f"{before}{secret}{more}"
        text = Recorder([f"Bearer {secret}"]).text(encode(whole.encode()))
        assert "[redacted]" in text
        shown = text.replace("[redacted]", "")
        # A few characters at both ends also have bits of the neighbouring text.
        assert len(shown) <= len(encode((before + more).encode())) + 4


@pytest.mark.parametrize(
    "written",
    [
        *(str.upper, str.lower, str.title, html.escape),
        lambda text: html.escape(text).replace("&#x27;", "&#39;"),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
    ],
)
def test_a_secret_is_redacted_in_upper_and_lower_case(written: Callable[[str], str]) -> None:
    secret = "tok'en<Abc>&1234"
    assert Recorder([secret]).text(f"é {written(secret)} é".encode()) == "é [redacted] é"


def test_the_credentials_of_an_authorization_are_redacted() -> None:
    basic = base64.b64encode(b"user:pass-word").decode()
    recorder = Recorder(["Bearer tok-123", f"Basic {basic}"])
    body = f"tok-123 {basic} user:pass-word pass-word end"
    assert recorder.text(body.encode()) == " ".join([*["[redacted]"] * 4, "end"])


def test_a_secret_is_redacted_in_recorded_headers() -> None:
    headers = {"location": "https://e.org/?key=sec%2Fret", "set-cookie": "a", "etag": "b"}
    assert Recorder(["sec/ret"]).record(_answer(b"", headers))["headers"] == {
        "location": "https://e.org/?key=[redacted]"
    }


@given(st.integers(0, 40))
def test_a_body_that_was_cut_within_a_secret_shows_little_of_it(end: int) -> None:
    body = b"x" * 10 + b"a-long-secret-of-some-kind"
    kept = Recorder(["a-long-secret-of-some-kind"]).record(_answer(body[:end], cut=True))["body"]
    assert "a-lo" not in kept


def test_a_recorded_answer_is_bounded_and_storable() -> None:
    kept = Recorder([], most=5).record(_answer("aé\0€😀zz".encode() + b"\xff"))
    assert (kept["body"], kept["cut"], kept["seconds"]) == ("aé\ufffd€😀", True, 0.123)


@given(st.binary(), st.integers(0, 50))
def test_any_bytes_become_text_for_json_and_postgresql(body: bytes, most: int) -> None:
    kept = Recorder(["secret"], most=most).record(_answer(body))["body"]
    assert len(kept) <= most
    assert "\0" not in kept
    kept.encode()
