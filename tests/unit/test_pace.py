"""Leasing ahead of the start: only while commands end at once."""

import math

import pytest

from inboxd.commands.prefetch import Pace


def _quick() -> Pace:
    """Commands take 10 ms."""
    pace = Pace()
    pace.took = 0.01
    return pace


def test_nothing_is_leased_ahead_until_commands_end_at_once() -> None:
    pace = _quick()
    assert pace.ahead == 0
    pace.claimed(full=False, most=500, at_once=100)
    assert pace.ahead == 0
    for expected in (32, 64, 128, 256, 500, 500):
        pace.claimed(full=True, most=500, at_once=100)
        assert pace.ahead == expected


def test_less_is_leased_when_they_wait() -> None:
    pace = _quick()
    for _ in range(3):
        pace.claimed(full=True, most=500, at_once=100)
    pace.waited = 0.05
    pace.claimed(full=True, most=500, at_once=100)
    assert pace.ahead == 128
    pace.waited = 0.2
    for expected in (64, 32, 16):
        pace.claimed(full=True, most=500, at_once=100)
        assert pace.ahead == expected


def test_what_waits_too_long_is_given_back() -> None:
    pace = _quick()
    pace.claimed(full=True, most=500, at_once=100)
    assert not pace.is_too_late(0.9)
    assert pace.ahead == 32
    assert pace.is_too_late(1.1)
    assert pace.ahead == 0


def test_a_smaller_setting_counts_at_once() -> None:
    pace = _quick()
    for _ in range(5):
        pace.claimed(full=True, most=500, at_once=100)
    pace.claimed(full=True, most=50, at_once=100)
    assert pace.ahead == 50


@pytest.mark.parametrize(("at_once", "took"), [(100, math.inf), (100, 1.0), (1, 0.01)])
def test_that_the_first_start_at_once_says_nothing(at_once: int, took: float) -> None:
    """None has ended yet; they take long; or so many would have to wait for one another."""
    pace = Pace()
    pace.took = took
    pace.claimed(full=True, most=500, at_once=at_once)
    assert pace.ahead == 0


def test_a_longer_one_among_quick_ones_ends_nothing() -> None:
    pace = _quick()
    pace.claimed(full=True, most=500, at_once=100)
    pace.took = 3.0
    pace.claimed(full=True, most=500, at_once=100)
    assert pace.ahead == 64
