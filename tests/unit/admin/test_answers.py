"""Answers as JSON: what is nested deep is told as well, or refused in words."""

import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from inboxd.admin.answers import RequestRefused, json_of


def nested(depth: int) -> Any:
    value: Any = "the innermost"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, 200, 500])
def test_what_is_nested_is_told(depth: int) -> None:
    assert json.loads(json_of(nested(depth))) == nested(depth)
    assert json.loads(json_of(nested(depth), indent=True)) == nested(depth)


def test_what_is_nested_too_deep_is_refused_in_words() -> None:
    with pytest.raises(RequestRefused) as refused:
        json_of(nested(200_000))
    assert refused.value.status is HTTPStatus.UNPROCESSABLE_ENTITY
    assert "select it with psql" in str(refused.value)


def test_spans_are_seconds_however_deep() -> None:
    assert b"1.5" in json_of({"took": timedelta(seconds=1.5)})
    assert b"1.5" in json_of({"took": timedelta(seconds=1.5), "payload": nested(500)})
