"""JSON answers: deeply nested values are encoded, or refused with a remedy."""

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
def test_nested_values_are_encoded(depth: int) -> None:
    assert json.loads(json_of(nested(depth))) == nested(depth)
    assert json.loads(json_of(nested(depth), indent=True)) == nested(depth)


def test_values_nested_too_deep_are_refused_with_a_remedy() -> None:
    with pytest.raises(RequestRefused) as refused:
        json_of(nested(200_000))
    assert refused.value.status is HTTPStatus.UNPROCESSABLE_ENTITY
    assert "select it with psql" in str(refused.value)


def test_spans_are_seconds_however_deep() -> None:
    assert b"1.5" in json_of({"took": timedelta(seconds=1.5)})
    assert b"1.5" in json_of({"took": timedelta(seconds=1.5), "payload": nested(500)})
