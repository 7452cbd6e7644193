"""Plots of characters: larger values are higher, unknown ones blank, and lines fit the width."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.cli.output import encodable
from inboxd.cli.plots import HEIGHTS, bar, plot, sparkline

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_NUMBERS = st.floats(1e-6, 1e12) | st.integers(0, 10**9)
VALUES = st.lists(st.none() | _NUMBERS, min_size=1, max_size=120)


def drawn(values: list[float | None], width: int = 80, height: int = 10) -> list[str]:
    begins = [BEGIN + n * timedelta(minutes=1) for n in range(len(values))]
    return list(
        plot(
            *(values, begins),
            width=width,
            height=height,
            label="{:.3g}".format,
            time=lambda at: at.strftime("%H:%M"),
        )
    )


def test_sparkline_shows_zero_small_and_unknown_values() -> None:
    assert sparkline([0, 1, 500, 1000, None, 7], 10) == "▁▂▅█ ▂"
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([None], 10) == " "
    assert sparkline([], 10) == ""


def test_values_beyond_the_width_share_a_character() -> None:
    assert sparkline([2, 4, 0, 0, 3, 3], 3) == "█▁█"
    assert sparkline([2, 4, 0, 0, 3, 3], 3, adds_up=False) == "█▁▇"
    assert sparkline([None, 4, None, None], 2) == "█ "


@given(VALUES, st.integers(1, 60))
def test_sparkline_is_never_too_long(values: list[float | None], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(width, len(values))
    assert set(line) <= {*HEIGHTS, " "}


def test_bar_of_a_small_value_is_visible() -> None:
    assert (bar(1, 1_000_000, 30), bar(0, 10, 30), bar(0, 0, 30)) == ("█", "", "")
    assert (len(bar(10, 10, 30)), len(bar(5, 10, 30))) == (30, 15)


@given(VALUES, st.integers(5, 20))
def test_plot_fits_and_has_a_column_of_each_value(values: list[float | None], height: int) -> None:
    lines = drawn(values, width=140, height=height)
    assert len(lines) == height + 2
    assert max(map(len, lines)) <= 140
    most = max((each for each in values if each is not None), default=0)
    columns = [
        "".join(each) for each in zip(*(f"{line:140}" for line in lines[:height]), strict=True)
    ]
    start = lines[0].index("┤") + 1
    across = max(1, (140 - start) // len(values))
    for n, value in enumerate(values):
        column = columns[start + n * across].strip()
        if value is None:
            assert column == ""
        elif value == 0:
            assert column == HEIGHTS[0]
        elif value == most:
            assert len(column) * 2 >= height - 1
            assert column != HEIGHTS[0]


def test_plot_has_labelled_axes() -> None:
    lines = drawn([*range(30), 30])
    assert lines[0].startswith("30 ┤")
    assert [line for line in lines if line.startswith("15 ┤")]
    assert lines[-3].startswith(" 0 ┤")
    assert (
        lines[-1].split() == ["00:00", "00:07", "00:14", "00:21", "00:28"][: len(lines[-1].split())]
    )
    assert len(lines[-1].split()) > 2


def test_encoding_without_blocks_gets_ascii_of_the_same_width() -> None:
    for line in [sparkline(range(8), 8), bar(3, 9, 9), *drawn([1, None, 5])]:
        for encoding in ("ascii", "latin-1", "cp1252"):
            shown = encodable(line, encoding)
            assert shown.isascii()
            assert len(shown) == len(line)
            assert "?" not in shown
    assert encodable(sparkline(range(8), 8), "ascii") == "_.:-=+*#"
    assert encodable("≈ 5 …", "ascii") == "~ 5 ."
    assert encodable("Zürich 東京", "latin-1") == "Zürich ??"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_unicode_stays_unchanged(encoding: str) -> None:
    assert encodable("▁█ 東京", encoding) == "▁█ 東京"
