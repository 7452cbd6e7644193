"""JSON as text: how invalid JSON is refused, and that indenting changes only white space."""

import json
from decimal import Decimal

import pytest

from inboxd.errors import UsageError
from inboxd.model.json_text import check_json, indented


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": canary', "expecting value in line 1, column 7"),
        ('{"a": 1,\n "b" 2}', "expecting ':' delimiter in line 2, column 6"),
        ("", "expecting value in line 1, column 1"),
        ("[1] canary", "extra data in line 1, column 5"),
        ("[NaN]", "there is no number NaN"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_invalid_json_is_refused_with_its_place_and_not_quoted(text: str, told: str) -> None:
    with pytest.raises(UsageError, match="the payload is") as refused:
        check_json(text)
    assert told in str(refused.value)
    assert "canary" not in str(refused.value)


def test_indenting_adds_only_white_space() -> None:
    text = r'{"a": [1, 0.10000000000000000001, {}, []], "b,[{\"\\": {"c": "x: \"{,\\"}, "n": 1e5}'
    shown = indented(text, 1_000)
    assert json.loads(shown, parse_float=Decimal) == json.loads(text, parse_float=Decimal)
    assert shown.splitlines()[:4] == ["{", '  "a": [', "    1,", "    0.10000000000000000001,"]
    assert shown.splitlines()[4:7] == ["    {},", "    []", "  ],"]
    assert indented("12345678901234567890123", 30) == "12345678901234567890123"


def test_json_too_long_to_indent_stays_unchanged() -> None:
    deep = "[" * 500 + "]" * 500
    assert indented(deep, 100_000) == deep
    assert indented(deep, 1_000_000) != deep
