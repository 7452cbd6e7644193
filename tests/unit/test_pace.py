"""Leasing ahead of the start: only while commands end at once."""

from inboxd.runtime.pace import Pace


def test_nothing_is_leased_ahead_until_commands_end_at_once() -> None:
    pace = Pace()
    assert pace.ahead == 0
    pace.claimed(full=False, most=500)
    assert pace.ahead == 0
    for expected in (32, 64, 128, 256, 500, 500):
        pace.claimed(full=True, most=500)
        assert pace.ahead == expected


def test_less_is_leased_when_they_wait() -> None:
    pace = Pace()
    for _ in range(3):
        pace.claimed(full=True, most=500)
    pace.waited = 0.05
    pace.claimed(full=True, most=500)
    assert pace.ahead == 128
    pace.waited = 0.2
    for expected in (64, 32, 16):
        pace.claimed(full=True, most=500)
        assert pace.ahead == expected


def test_what_waits_too_long_is_given_back() -> None:
    pace = Pace()
    pace.claimed(full=True, most=500)
    assert not pace.is_too_late(0.9)
    assert pace.ahead == 32
    assert pace.is_too_late(1.1)
    assert pace.ahead == 0


def test_a_smaller_setting_counts_at_once() -> None:
    pace = Pace()
    for _ in range(5):
        pace.claimed(full=True, most=500)
    pace.claimed(full=True, most=50)
    assert pace.ahead == 50
