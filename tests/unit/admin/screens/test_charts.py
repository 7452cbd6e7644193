"""Charts: scales that end at round numbers, gaps for unknown values, parts that add up."""

import re
from xml.etree import ElementTree as ET

import pytest

from inboxd.admin.screens.charts import Curve, Slice, bar, ceiling, donut, ended, plot, spark

HOSTILE = "\"'><script>alert(1)</script>"


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 1), (0.3, 0.3), (1, 1), (7, 8), (11, 15), (289, 300), (1001, 1500)]
)
def test_a_scale_ends_at_a_round_number_that_is_not_less(largest: float, top: float) -> None:
    assert ceiling(largest) == pytest.approx(top)


def test_an_unknown_value_is_a_gap() -> None:
    drawn = plot("", [Curve("", "good", [1, 2, None, 3, 4])], ["a"] * 5)
    (path,) = re.findall(r'class="line good" d="([^"]*)"', drawn)
    assert path.count("M") == 2
    (path,) = re.findall(r'class="line busy" d="([^"]*)"', spark("", [1, 2, None, 3, 4]))
    assert path.count("M") == 2


def test_a_chart_without_values_draws_nothing() -> None:
    assert "NaN" not in plot("", [Curve("", "good", [])], [])
    assert spark("", [None, None]) == ""
    assert "path" not in donut("", [])


def test_the_current_step_is_left_out() -> None:
    (curve,) = ended([Curve("Done", "good", [3, 4, 0], filled=True)])
    assert curve == Curve("Done", "good", [3, 4], filled=True)


def test_the_largest_value_is_at_the_top_and_0_at_the_bottom() -> None:
    drawn = plot("", [Curve("", "good", [0, 100])], ["a", "b"])
    assert 'd="M0.0,150.0 L600.0,0.0"' in drawn


def test_slices_end_where_the_next_begins() -> None:
    drawn = donut("", [Slice("a", "hue-1", 3), Slice("b", "hue-2", 1), Slice("c", "hue-3", 0)])
    arcs = re.findall(r'd="M(\S+) A40,40 0 (\d) 1 (\S+)"', drawn)
    assert [large for _, large, _ in arcs] == ["1", "0"]
    assert arcs[0][2] == arcs[1][0] == "-40.00,0.00"


def test_the_parts_of_a_bar_fill_it() -> None:
    drawn = bar("", [Slice("a", "good", 1), Slice("b", "bad", 3)])
    assert re.findall(r'x="(\S+)" width="(\S+)"', drawn) == [("0.00", "25.00"), ("25.00", "75.00")]


@pytest.mark.parametrize(
    "drawn",
    [
        plot(HOSTILE, [Curve(HOSTILE, HOSTILE, [1, 2])], [HOSTILE, HOSTILE]),
        plot(HOSTILE, [Curve(HOSTILE, HOSTILE, [1, 2])], [HOSTILE] * 2, [HOSTILE] * 2),
        spark(HOSTILE, [1, 2], HOSTILE),
        donut(HOSTILE, [Slice(HOSTILE, HOSTILE, 1)]),
        bar(HOSTILE, [Slice(HOSTILE, HOSTILE, 1)]),
    ],
)
def test_texts_are_escaped_and_nothing_is_styled_inline(drawn: str) -> None:
    assert "<script" not in drawn
    assert "style=" not in drawn
    ET.fromstring(drawn)  # noqa: S314 - our own
