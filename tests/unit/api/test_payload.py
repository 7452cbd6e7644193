"""Payloads get the annotated type, or a refusal that names the field and no value."""

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator
from typing_extensions import TypedDict

from inboxd.api.context import CommandContext, EventContext
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.api.payload import PROBLEMS_SHOWN, decode, decode_event_command, wrap_event
from inboxd.api.records import CommandHandler, EventHandler
from inboxd.errors import PayloadError


class Student(BaseModel):
    age: int
    weight: float = 0
    balance: Decimal = Decimal(0)

    @field_validator("age")
    @classmethod
    def _plausible(cls, age: int) -> int:
        if age == 666:
            raise ValueError(f"secret {age}")
        if age == 777:
            raise KeyError(f"secret {age}")
        return age


@dataclass
class Point:
    """A payload that is a dataclass."""

    x: int


class Pair(TypedDict):
    """A payload that stays a dict."""

    left: int


def taking(annotation: Any, version: int = 1) -> EventHandler:
    """A handler of `a.b` with this payload, and upcasters from version 2 on."""
    handlers = Handlers("school")

    @handlers.event("a.b", schema_version=version)
    async def handle(event: Any, ctx: EventContext) -> None: ...

    handle.__annotations__["event"] = Event[annotation]
    if version > 2:

        @handlers.upcaster("a.b", from_version=2)
        def rename(payload: Any) -> Any:
            return {"age": payload["years"]}

    declared = handlers.build()
    assert not declared.problems
    return declared.events[0]


STUDENT = taking(Student, version=3)


@pytest.mark.parametrize(
    ("annotation", "raw", "wanted"),
    [
        (Student, '{"age":3}', Student(age=3)),
        (Point, '{"x":3}', Point(3)),
        (Pair, '{"left":3}', {"left": 3}),
        (dict[str, int], '{"a":3}', {"a": 3}),
        (list[Point], '[{"x":3}]', [Point(3)]),
        (Any, '[1,"a",null,1.5]', [1, "a", None, 1.5]),
        (None, "null", None),
    ],
)
def test_a_payload_becomes_what_the_annotation_says(
    annotation: Any, raw: str, wanted: object
) -> None:
    assert decode(taking(annotation), raw, 1) == wanted


def test_an_older_version_is_upcast() -> None:
    assert decode(STUDENT, '{"years":3}', 2) == Student(age=3)


@pytest.mark.parametrize(
    ("raw", "version", "path", "message"),
    [
        ('{"age":3}', 4, None, "version 4 is too new: this worker reads up to 3; deploy a newer"),
        ('{"age":3}', 1, None, "version 1 has no upcaster in school: declare upcaster"),
        ('{"age":3}', 0, None, "version 0 has no upcaster"),
        ('{"yeers":3}', 2, None, "the upcaster from version 2 raised KeyError"),
        ("[[[", 2, None, "it is not JSON, or nested too deeply"),
        ('{"age":"secret"}', 3, "age", "must be a whole number"),
        ("{}", 3, "age", "is missing"),
        ('{"age":666}', 3, "age", r"is refused by a validator \(value_error\)"),
        ('{"age":777}', 3, None, "its class raised KeyError"),
        ('{"age":3', 3, None, "it is not valid JSON"),
        ("secret", 3, None, "it is not valid JSON"),
        ("[]", 3, None, "it must be an object"),
        ("[" * 10_000, 3, None, "recursion limit"),
        ("[" * 100_000, 2, None, "nested too deeply"),
        ('{"age":3,"weight":1' + "0" * 400 + "}", 3, None, "out of range"),
        ('{"age":3,"weight":-1' + "0" * 400 + ".5}", 3, None, "out of range"),
        ('{"age":1' + "0" * 9_000 + "}", 3, None, "out of range"),
    ],
)
def test_undecodable_payload_is_refused_with_the_reason(
    raw: str, version: int, path: str | None, message: str
) -> None:
    with pytest.raises(PayloadError, match=message) as caught:
        decode(STUDENT, raw, version)
    error = caught.value
    assert error.path == path
    assert "secret" not in str(error)
    # A chained error would print the payload with its traceback.
    assert error.__cause__ is error.__context__ is None


def test_long_text_of_digits_does_not_count_as_a_number() -> None:
    assert decode(taking(list[str]), f'["{"1" * 2_000}"]', 1) == ["1" * 2_000]


def test_an_amount_written_as_text_keeps_all_its_digits() -> None:
    exact = "0.1234567890123456789012345678"
    assert decode(STUDENT, f'{{"age":1,"balance":"{exact}"}}', 3).balance == Decimal(exact)


def test_many_problems_are_counted() -> None:
    raw = orjson.dumps({str(n): "x" for n in range(100)}).decode()
    with pytest.raises(PayloadError, match="and 95 more problems") as caught:
        decode(taking(dict[str, int]), raw, 1)
    assert str(caught.value).count("must be a whole number") == PROBLEMS_SHOWN


@given(st.text())
def test_any_text_is_decoded_or_refused(raw: str) -> None:
    for version in (2, 3):
        try:
            assert isinstance(decode(STUDENT, raw, version), Student)
        except PayloadError as error:
            assert str(error)  # noqa: PT017 - either is right, another exception is not


# ---------------------------------------------------------------- events that travel in commands

ROW: dict[str, Any] = {
    "id": 7,
    "event_id": UUID(int=1),
    "topic": "default",
    "type": "a.b",
    "schema_version": 1,
    "source": None,
    "tenant": "acme",
    "entity_type": "student",
    "entity_id": "3",
    "ordering_key": "student 3",
    "headers": '{"a":1}',
    "correlation_id": "story",
    "causation_id": UUID(int=2),
    "traceparent": None,
    "occurred_at": datetime(2030, 1, 1, tzinfo=UTC),
    "created_at": datetime(2030, 1, 2, tzinfo=UTC),
    "attempts": 0,
}


@pytest.fixture
def carrier() -> CommandHandler:
    handlers = Handlers("school")

    @handlers.event("a.b", schema_version=2, as_command=True, queue="slow")
    async def grow(event: Event[Student], ctx: CommandContext) -> None: ...

    @handlers.upcaster("a.b", from_version=1)
    def rename(payload: Any) -> Any:
        return {"age": payload["years"]}

    declared = handlers.build()
    assert not declared.problems
    return declared.commands[0]


def test_carried_event_arrives_unchanged(carrier: CommandHandler) -> None:
    draft = wrap_event(carrier, ROW, '{"years":3}')
    assert (draft.type, draft.queue, draft.schema_version) == ("school.grow", "slow", 1)
    assert (draft.tenant, draft.entity_type, draft.entity_id) == ("acme", "student", "3")
    assert draft.ordering_key == "student 3"
    event = decode_event_command(carrier, draft.payload, draft.schema_version, attempts=4)
    assert event.payload == Student(age=3)
    assert event.attempt == 5
    shown = {name: getattr(event, name) for name in ROW if name not in ("attempts", "ordering_key")}
    assert shown == {
        **{name: value for name, value in ROW.items() if name in shown},
        "headers": {"a": 1},
    }


def test_numbers_of_a_carried_event_stay_unchanged(carrier: CommandHandler) -> None:
    raw = '{"age":1,"weight":0.1234567890123456789012345678}'
    assert raw in wrap_event(carrier, ROW, raw).payload


def test_carried_event_may_have_a_uuid_of_the_driver(carrier: CommandHandler) -> None:
    class DriversUUID(UUID):
        pass

    row = {**ROW, "schema_version": 2, "event_id": DriversUUID(int=1)}
    draft = wrap_event(carrier, row, '{"age":3}')
    event = decode_event_command(carrier, draft.payload, 2, attempts=0)
    assert event.event_id == UUID(int=1)


def test_refusal_of_a_carried_event_names_the_field_of_the_event(carrier: CommandHandler) -> None:
    draft = wrap_event(carrier, ROW, '{"age":"x"}')
    with pytest.raises(PayloadError) as caught:
        decode_event_command(carrier, draft.payload, 2, attempts=0)
    assert caught.value.path == "age"
    with pytest.raises(PayloadError, match=r"a\.b version 3 is too new"):
        decode_event_command(carrier, draft.payload, 3, attempts=0)


@pytest.mark.parametrize("number", [sys.float_info.max, 1.8e-307, 2.2e-308, 5e-324, -5e-324])
def test_a_number_that_a_float_holds_is_read_however_long_it_is(number: float) -> None:
    """In jsonb a number has no exponent, so its text may be long."""
    found = decode(taking(dict[str, Any]), f'{{"n":{Decimal(number):f}}}', 1)
    assert float(found["n"]) == number
    short = format(Decimal(repr(number)), "f")
    assert float(decode(taking(dict[str, Any]), f'{{"n":{short}}}', 1)["n"]) == number
    digits = "0." + "1" * 16_383
    assert decode(taking(dict[str, Any]), f'{{"n":{digits},"zero":0}}', 1)["n"] == float(digits)


@pytest.mark.parametrize("number", ["1.8e308", "-1e400", "1e-400", "-2e-324"])
def test_a_number_that_no_float_holds_is_out_of_range(number: str) -> None:
    with pytest.raises(PayloadError, match="out of range"):
        decode(taking(dict[str, Any]), f'{{"n":{Decimal(number):f}}}', 1)


def test_a_payload_has_at_most_200_levels() -> None:
    decode(taking(list[Any]), "[" * 200 + "]" * 200, 1)
    with pytest.raises(PayloadError, match="recursion limit"):
        decode(taking(list[Any]), "[" * 202 + "]" * 202, 1)


@pytest.mark.parametrize("digits", [309, 310, 617, 618])
def test_a_number_that_is_too_long_is_found_wherever_it_lies(digits: int) -> None:
    found = taking(dict[str, Any])
    for before in range(320):
        text = "ab12" * (before // 4) + "x" * (before % 4)
        with pytest.raises(PayloadError, match="out of range"):
            decode(found, f'{{"t":"{text}","n":{"9" * digits}}}', 1)
        assert decode(found, f'{{"t":"{text}","n":1{"9" * 20}}}', 1)["t"] == text
