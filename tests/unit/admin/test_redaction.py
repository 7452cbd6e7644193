"""Redaction: no canary below a secret key is left, whatever its place and encoding."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from inboxd.admin.redaction import Redaction
from inboxd.settings import Admin

CANARY = "canary-4711"
IN_TEXT = [
    f"a=1&password={CANARY}&b=2",
    f"Authorization: Bearer {CANARY}\nfine: yes",
    f"Cookie: a=b; c={CANARY}",
    f"curl -H authorization=Bearer {CANARY}",
    f"input_value={{'apiKey': '{CANARY} and more'}}",
    f'{{"password": "it\'s {CANARY}", cut off',
    f'said {{\\"token\\": \\"{CANARY}\\"}}',
    f"postgresql://u:{CANARY}@h/d",
    f"'client_secret' => '{CANARY}'",
    f'password="{CANARY}',
    json.dumps({"a": json.dumps({"b": [{"X-Token": CANARY}]})}),
]
IN_JSON: list[Any] = [
    {"password": CANARY},
    {"a": [{"API-Key": {"id": CANARY, "list": [CANARY]}}]},
    {"creditCardNumber": 4711, "x": {"Authorization": [CANARY]}},
    [{"name": "Authorization", "value": CANARY}],
    [["Set-Cookie", CANARY]],
    *({"note": text} for text in IN_TEXT),
    IN_TEXT,
]


def redaction(**admin: Any) -> Redaction:
    return Redaction(Admin.model_validate(admin))


@pytest.mark.parametrize("field", ["payload", "headers", "result", "errors", "progress", "answer"])
@pytest.mark.parametrize("value", [*IN_JSON, *IN_TEXT])
def test_no_canary_is_left(field: str, value: object) -> None:
    row = {"type": "a", field: json.loads(json.dumps(value))}
    assert redaction().hide(row)
    assert "4711" not in json.dumps(row)


@pytest.mark.parametrize("text", IN_TEXT)
def test_secrets_in_a_raw_webhook_are_hidden(text: str) -> None:
    row: dict[str, Any] = {"type": "a", "receipt": {"headers": {"x-token": CANARY}, "body": text}}
    assert redaction().hide(row)
    assert "4711" not in json.dumps(row)
    row = {"type": "a", "receipt": {"headers": {}, "body_base64": "Y2FuYXJ5"}}
    assert redaction().hide(row), "a body that is not text is hidden whole"
    assert "Y2FuYXJ5" not in json.dumps(row)


def test_harmless_values_stay_as_they_are() -> None:
    payload = {
        "id": 1.50,
        "text": '{"a":  1}',
        "has_password": True,
        "token": None,
        "secret": "",
        "at": "12:30",
        "address": "http://h:80/?a=b",
    }
    row: dict[str, Any] = {"type": "a", "payload": dict(payload), "headers": None}
    assert not redaction().hide(row)
    assert row == {"type": "a", "payload": payload, "headers": None}


def test_types_are_hidden_whole() -> None:
    hides = redaction(hidden_types=["payment.*", "b"])
    for type_, is_hidden in (("payment.made", True), ("b", True), ("bc", False)):
        row: dict[str, Any] = {"type": type_, "payload": {"x": CANARY}, "result": CANARY}
        assert hides.hide(row) == is_hidden
        assert (CANARY in json.dumps(row)) != is_hidden


def test_keys_are_those_of_the_settings() -> None:
    row: dict[str, Any] = {"type": "a", "payload": {"password": "p", "Tax-Id": CANARY}}
    assert redaction(redact_keys="tax_id").hide(row)
    assert row["payload"] == {"password": "p", "Tax-Id": "********"}
    assert not redaction(redact_keys=[]).hide({"type": "a", "payload": {"password": CANARY}})
    with pytest.raises(ValidationError, match="in too many names"):
        redaction(redact_keys=["id"])


def test_a_filter_for_a_hidden_value_is_detected() -> None:
    assert redaction().hides_some(['{"a":1}', '{"user":{"password":"p"}}'])
    assert not redaction().hides_some(['{"customer":{"id":17.0}}'])


KEYS = st.sampled_from(["a", "password", "API-key", "note", "name", "value"])
VALUES = st.recursive(
    st.sampled_from([CANARY, "x", 1, None]) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.integers(0, 3))
def test_nothing_below_a_secret_key_is_left_however_often_it_was_encoded(
    value: object, times: int
) -> None:
    secret: object = {"clientSecret": [value, CANARY]}
    for _ in range(times):
        secret = {"a": json.dumps(secret)}
    row = {"type": "a", "payload": [secret, {"b": secret}]}
    redaction().hide(row)
    assert "4711" not in json.dumps(row)


def test_deep_nesting_does_not_evade_redaction() -> None:
    payload: dict[str, Any] = {}
    innermost = payload
    for _ in range(20_000):
        innermost["a"] = [{}]
        innermost = innermost["a"][0]
    innermost["password"] = CANARY
    redaction().hide({"type": "a", "payload": payload})
    assert innermost == {"password": "********"}


@pytest.mark.parametrize(
    "word", ["w", "a:", "token ", "token:", "'", 'token="\\', "password=", "x.-", "https://x:"]
)
def test_hostile_text_takes_no_longer_than_other_text(word: str) -> None:
    started = time.monotonic()
    redaction().hide({"type": "a", "payload": word * 200_000})
    assert time.monotonic() - started < 60, "quadratic time would be minutes"
