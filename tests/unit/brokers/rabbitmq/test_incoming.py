"""Reading a message from bytes: any that a sender may write, without an error."""

import datetime as dt
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from inboxd.brokers.rabbitmq import incoming

_AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def _header(**properties: object) -> bytes:
    """The header of a message with a body of 7 bytes, as pamqp writes it."""
    return ContentHeader(0, 7, Basic.Properties(**properties)).marshal()  # type: ignore[arg-type]


def _headers(raw: bytes) -> dict[str, str]:
    """The headers that are read from the bytes of a table."""
    _, found = incoming.content(struct.pack(">HHQHI", 60, 0, 7, 0x2000, len(raw)) + raw)
    return found.headers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("zwölf", "zwölf"),
        (True, "true"),
        (-5, "-5"),
        (200, "200"),
        (40_000, "40000"),
        (3_000_000_000, "3000000000"),
        (-5_000_000_000, "-5000000000"),
        (Decimal("1.25"), "1.25"),
        (_AT, "2026-01-02T03:04:05Z"),
        (bytearray(b"a"), "a"),
    ],
)
def test_a_header_is_a_text(value: object, text: str) -> None:
    size, found = incoming.content(_header(headers={"Name": value, "other": "x"}))
    assert size == 7
    assert found.headers == {"name": text, "other": "x"}


@pytest.mark.parametrize("value", [None, {"a": 1}, ["a"]])
def test_a_value_that_is_not_a_string_is_left_out(value: object) -> None:
    _, found = incoming.content(_header(headers={"a": value, "b": "x"}, message_id="m"))
    assert found.headers == {"b": "x", "message-id": "m"}


def test_properties_go_before_headers_of_their_names() -> None:
    raw = _header(headers={"type": "mine", "user-id": "me"}, message_type="its", user_id="they")
    _, found = incoming.content(raw)
    assert found.headers == {"type": "its", "user-id": "they"}


def test_bytes_that_are_not_utf_8_are_read_as_latin_1() -> None:
    assert _headers(b"\x01\xe4S\0\0\0\x01\xff") == {"ä": "ÿ"}


def test_headers_behind_an_unknown_kind_are_left_out() -> None:
    assert _headers(b"\x01aS\0\0\0\x01b\x01c?x\x01dS\0\0\0\x01e") == {"a": "b"}


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (1_700_000_000_123, 1_700_000_000.123),
        (1_700_000_000_000_000_000, None),
    ],
)
def test_a_time_is_in_seconds_or_milliseconds(given_: int, seconds: float | None) -> None:
    _, found = incoming.content(struct.pack(">HHQHQ", 60, 0, 0, 0x0040, given_))
    assert found.time == seconds


def test_each_property_is_read_in_its_place() -> None:
    every = {
        "content_type": "a",
        "content_encoding": "b",
        "correlation_id": "c",
        "reply_to": "d",
        "expiration": "e",
        "message_id": "f",
        "message_type": "g",
        "user_id": "h",
        "app_id": "i",
    }
    raw = _header(**every, headers={"x": "y"}, delivery_mode=2, priority=3, timestamp=_AT)
    _, found = incoming.content(raw)
    assert found.time == _AT.timestamp()
    assert found.headers == {
        "x": "y",
        **{name.replace("message_type", "type").replace("_", "-"): v for name, v in every.items()},
    }


@given(st.integers(0, 0xFFFF), st.binary(max_size=300))
def test_bytes_of_any_content_raise_no_error(flags: int, raw: bytes) -> None:
    size, _ = incoming.content(struct.pack(">HHQH", 60, 0, 7, flags) + raw)
    assert size == 7
