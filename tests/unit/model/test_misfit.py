"""Messages about invalid values: in plain words, and without the value."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    FiniteFloat,
    HttpUrl,
    NaiveDatetime,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from inboxd.model.misfit import in_other_words, misfit


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Card(BaseModel, extra="forbid"):
    kind: Literal["card"]


class Cash(BaseModel):
    kind: Literal["cash"]


@dataclass
class Point:
    x: int


def _problem(annotation: Any, raw: str) -> ErrorDetails:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    with pytest.raises(ValidationError) as caught:
        adapter.validate_json(raw)
    return caught.value.errors()[0]


@pytest.mark.parametrize(
    ("annotation", "raw", "told"),
    [
        (Card, "{}", "is missing"),
        (Card, '{"kind": "card", "value": 7}', "is unknown"),
        (Card, "[]", "must be an object with names and values"),
        (Point, "7", "must be an object with names and values"),
        (dict[str, int], "[]", "must be an object with names and values"),
        (list[int], "{}", "must be a list"),
        (set[int], "7", "must be a list"),
        (tuple[int, ...], "7", "must be a list"),
        (int, '"value"', "must be a whole number"),
        (int, "7.5", "must be a whole number"),
        (int, f'"{"7" * 5_000}"', "has too many digits"),
        (float, '"value"', "must be a number"),
        (Decimal, '"value"', "must be a number"),
        (Annotated[Decimal, Field(max_digits=2)], '"777"', "must have at most 2 digits"),
        (FiniteFloat, "1e400", "must be a finite number"),
        (bool, '"value"', "must be true or false"),
        (str, "7", "must be a text"),
        (bytes, "7", "must be a text"),
        (None, "7", "must be null"),
        (Colour, '"value"', "must be 'red' or 'blue'"),
        (Literal["live", "over"], '"value"', "must be 'live' or 'over'"),
        (Annotated[int, Field(gt=7)], "7", "must be more than 7"),
        (Annotated[int, Field(ge=7)], "1", "must be at least 7"),
        (Annotated[int, Field(lt=7)], "7", "must be less than 7"),
        (Annotated[int, Field(le=7)], "8", "must be at most 7"),
        (Annotated[int, Field(multiple_of=7)], "8", "must be a multiple of 7"),
        (Annotated[str, Field(min_length=1)], '""', "must have at least 1 character"),
        (Annotated[str, Field(max_length=2)], '"value"', "must have at most 2 characters"),
        (Annotated[list[int], Field(min_length=2)], "[7]", "must have at least 2 items"),
        (Annotated[str, Field(pattern="^a$")], '"value"', "must match the pattern '^a$'"),
        (date, '"value"', "must be a date, such as 2026-01-31"),
        (datetime, '"value"', "must be a date with a time, such as 2026-01-31T12:30:00Z"),
        (time, '"value"', "must be a time, such as 12:30:00"),
        (timedelta, '"value"', "must be a duration, such as PT30S"),
        (AwareDatetime, '"2026-01-31T12:30:00"', "must have a time zone"),
        (NaiveDatetime, '"2026-01-31T12:30:00Z"', "must have no time zone"),
        (UUID, '"value"', "must be a UUID"),
        (HttpUrl, '"value"', "must be a URL"),
        (HttpUrl, '"ftp://value"', "must be a URL that begins with 'http' or 'https'"),
        (Annotated[Card | Cash, Field(discriminator="kind")], "{}", "must name its kind in 'kind'"),
        (
            Annotated[Card | Cash, Field(discriminator="kind")],
            '{"kind": "value"}',
            "must have one of 'card', 'cash' in 'kind'",
        ),
    ],
)
def test_message_is_plain_and_has_no_value(annotation: Any, raw: str, told: str) -> None:
    detail = _problem(annotation, raw)
    assert misfit(detail["type"], detail.get("ctx")) == told
    assert "value" not in told.replace("names and values", "")


def test_json_that_ends_early_is_told_with_its_place() -> None:
    detail = _problem(Card, "{")
    told = misfit(detail["type"], detail.get("ctx"))
    assert told is not None
    assert told.startswith("is not valid JSON: ")


def test_error_with_a_context_of_its_own_has_no_message() -> None:
    assert misfit("greater_than", {"than": 7}) is None
    assert misfit("too_short", {"min_length": "few"}) is None
    assert misfit("a plugin's own", None) is None


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Input should be callable", "must be callable"),
        ("Value error, a duration has a unit", "a duration has a unit"),
        (
            "Invalid value for '--minutes': Input should be odd",
            "Invalid value for '--minutes': must be odd",
        ),
    ],
)
def test_the_librarys_own_message_begins_plainly(message: str, told: str) -> None:
    assert in_other_words(message) == told
