"""Durations carry their unit, and are read back as they were written."""

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
def test_reads(text: str | timedelta, wanted: timedelta) -> None:
    assert parse(text) == wanted


@pytest.mark.parametrize(
    "wrong", ["30", "", "s", "-5s", "1w", "3 0s", "5s!", "1e3s", "٣s", 30, 1.5, None, []]
)
def test_refuses_what_has_no_unit(wrong: object) -> None:
    with pytest.raises(UsageError, match="is not a duration: write a number with its unit"):
        parse(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["36526d", "999999999999999h", timedelta(days=-1), timedelta.max])
def test_refuses_what_fits_nowhere(wrong: str | timedelta) -> None:
    with pytest.raises(UsageError, match="out of range"):
        parse(wrong)


def test_refuses_to_round() -> None:
    with pytest.raises(UsageError, match="finer than a microsecond"):
        parse("0.0000001s")


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST))
def test_reads_back_what_it_wrote(value: timedelta) -> None:
    assert parse(write(value)) == value
    assert seconds(write(value)) == value.total_seconds()


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert timedelta(0) <= parse(text) <= LONGEST
