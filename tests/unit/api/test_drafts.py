"""JSON of drafts: values come back unchanged, or are refused with the field's path."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from inboxd.api.drafts import encode
from inboxd.errors import PayloadError


class Grade(BaseModel):
    name: str
    points: float | None = None


@dataclass
class Report:
    """A payload that is not a pydantic model."""

    grades: list[Any]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc\\u0"), inner),
)


@given(JSON)
def test_any_json_value_comes_back(value: Any) -> None:
    assert orjson.loads(encode(value)) == value


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (Grade(name="Ada"), {"name": "Ada", "points": None}),
        ([Grade(name="Ada", points=1)], [{"name": "Ada", "points": 1.0}]),
        (Report([1]), {"grades": [1]}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime(2030, 1, 1, tzinfo=UTC), "2030-01-01T00:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        ({"a": {3}}, {"a": [3]}),
        ("a text that says \\u0000 and null", "a text that says \\u0000 and null"),
    ],
)
def test_python_values_are_encoded(value: object, wanted: object) -> None:
    assert orjson.loads(encode(value)) == wanted


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        (Grade(name="Ada", points=math.nan), "points", "NaN or infinite"),
        (Grade(name="A\0da"), "name", "NUL"),
        ({"a": [1, {"b": math.inf}]}, "a.1.b", "NaN or infinite"),
        (Report([-math.inf]), "grades.0", "NaN or infinite"),
        ({"a": Grade(name="\0")}, "a.name", "NUL"),
        ({"x": {"k\0": 1}}, "x.'k\\x00'", "NUL"),
        (math.nan, None, "NaN or infinite"),
    ],
)
def test_value_that_the_database_cannot_hold_is_refused(
    value: object, path: str | None, problem: str
) -> None:
    with pytest.raises(PayloadError, match=problem) as caught:
        encode(value)
    assert caught.value.path == path


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1: 2},
        2**70,
        "\ud800",
        Grade(name="\ud800"),
        Grade.model_construct(name=["secret"]),  # type: ignore[arg-type] # the mistake under test
        nested(2_000),
    ],
)
def test_value_without_json_form_is_refused_without_being_quoted(value: object) -> None:
    with pytest.raises(PayloadError, match="cannot be written as JSON") as caught:
        encode(value)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__
