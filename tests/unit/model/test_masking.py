"""Passwords in text are masked, wherever the text is cut, in linear time."""

import time

import pytest

from inboxd.model.masking import redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no secret here", "no secret here"),
        ("postgresql://u:p@h/d", "postgresql://u:********@h/d"),
        ("postgresql://u:p@ss/w@h/d", "postgresql://u:********@h/d"),
        ("postgresql://u@h:5432/d", "postgresql://u@h:5432/d"),
        ("http://h:80/ me@h", "http://h:80/ me@h"),
        ("one ://a:p@h,\nanother 'x://:q@h'", "one ://a:********@h,\nanother 'x://:********@h'"),
        ("host=h password=p user=u", "host=h password=******** user=u"),
        ("?user=u&Password=p@q&x=1", "?user=u&Password=********&x=1"),
        ("input {'api_token': 'p', 'a': 'b'}", "input {'api_token': ********, 'a': 'b'}"),
        ('{"user": "u", "Password" : "p\\"q"}', '{"user": "u", "Password" : ********}'),
        ('{"password": "cut off', '{"password": ********'),
        ("unexpected token: 'x'", "unexpected token: 'x'"),
    ],
)
def test_passwords_are_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


def test_password_that_is_cut_off_is_masked() -> None:
    text = "no answer of postgresql://u:hunter2@h/d"
    assert redact(text, len(text)) == "no answer of postgresql://u:********@h/d"
    for length in range(len(text)):
        assert "h" not in redact(text, length).partition("://u:")[2].replace("@h", "")
    assert redact("x" * 9, 5) == "xxxxx"
    assert redact("me@h.org", 3) == "me@"


@pytest.mark.parametrize(
    "word", ["x", "://a:", "://", "password", "@", "=://a", '"', '"token":', '"token":"\\\\']
)
def test_hostile_text_takes_no_longer_than_other_text(word: str) -> None:
    text = f"{word * 200_000} = ://u:p@h"
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 20, "quadratic time would be minutes"
