"""Durations need a unit, and a written duration is read back unchanged."""

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import UsageError
from inboxd.model.duration import LONGEST, parse, seconds, write


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("1h30m", timedelta(minutes=90)),
        ("1h 30m", timedelta(minutes=90)),
        ("10 s", timedelta(seconds=10)),
        ("250ms", timedelta(milliseconds=250)),
        ("2d", timedelta(days=2)),
        ("1.5s", timedelta(milliseconds=1500)),
        ("0s", timedelta(0)),
        (timedelta(seconds=3), timedelta(seconds=3)),
    ],
)
def test_durations_are_read(text: str | timedelta, wanted: timedelta) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    "wrong", ["30", "", "s", "-5s", "1w", "3 0s", "5s!", "1e3s", "٣s", 30, 1.5, None, []]
)
def test_duration_without_a_unit_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="is not a duration: write a number with its unit"):
        parse(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["36526d", "999999999999999h", timedelta(days=-1), timedelta.max])
def test_duration_out_of_range_is_refused(wrong: str | timedelta) -> None:
    with pytest.raises(UsageError, match="out of range"):
        parse(wrong)


def test_duration_finer_than_a_microsecond_is_refused() -> None:
    with pytest.raises(UsageError, match="finer than a microsecond"):
        parse("0.0000001s")


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST))
def test_written_duration_is_read_back(value: timedelta) -> None:
    assert parse(write(value)) == value
    assert seconds(write(value)) == value.total_seconds()


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert timedelta(0) <= parse(text) <= LONGEST
