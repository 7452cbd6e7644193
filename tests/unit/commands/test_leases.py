"""Leasing ahead of the start: only while commands end at once."""

import math

import pytest

from inboxd.commands.leases import Prefetch


def _quick() -> Prefetch:
    """Prefetch that has seen a command of 10 ms."""
    prefetch = Prefetch()
    prefetch.took = 0.01
    return prefetch


def test_nothing_is_leased_ahead_until_commands_end_at_once() -> None:
    prefetch = _quick()
    assert prefetch.ahead == 0
    prefetch.claimed(full=False, most=500, at_once=100)
    assert prefetch.ahead == 0
    for expected in (32, 64, 128, 256, 500, 500):
        prefetch.claimed(full=True, most=500, at_once=100)
        assert prefetch.ahead == expected


def test_less_is_leased_ahead_when_commands_wait() -> None:
    prefetch = _quick()
    for _ in range(3):
        prefetch.claimed(full=True, most=500, at_once=100)
    prefetch.waited = 0.05
    prefetch.claimed(full=True, most=500, at_once=100)
    assert prefetch.ahead == 128
    prefetch.waited = 0.2
    for expected in (64, 32, 16):
        prefetch.claimed(full=True, most=500, at_once=100)
        assert prefetch.ahead == expected


def test_a_command_that_waits_too_long_is_given_back() -> None:
    prefetch = _quick()
    prefetch.claimed(full=True, most=500, at_once=100)
    assert not prefetch.is_too_late(0.9)
    assert prefetch.ahead == 32
    assert prefetch.is_too_late(1.1)
    assert prefetch.ahead == 0


def test_a_smaller_setting_counts_at_once() -> None:
    prefetch = _quick()
    for _ in range(5):
        prefetch.claimed(full=True, most=500, at_once=100)
    prefetch.claimed(full=True, most=50, at_once=100)
    assert prefetch.ahead == 50


@pytest.mark.parametrize(("at_once", "took"), [(100, math.inf), (100, 1.0), (1, 0.01)])
def test_a_quick_first_start_does_not_count(at_once: int, took: float) -> None:
    """No command has ended yet; commands take long; or many would have to wait for one another."""
    prefetch = Prefetch()
    prefetch.took = took
    prefetch.claimed(full=True, most=500, at_once=at_once)
    assert prefetch.ahead == 0


def test_a_slow_command_among_quick_ones_changes_nothing() -> None:
    prefetch = _quick()
    prefetch.claimed(full=True, most=500, at_once=100)
    prefetch.took = 3.0
    prefetch.claimed(full=True, most=500, at_once=100)
    assert prefetch.ahead == 64
