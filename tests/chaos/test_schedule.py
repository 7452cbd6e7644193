"""The schedule is a pure function of its seed."""

import hashlib
import subprocess
import sys

from tests.chaos.schedule import KINDS, LEASE, describe, plan


def test_a_seed_repeats_its_schedule() -> None:
    assert plan(7, 300) == plan(7, 300)
    assert plan(7, 300) != plan(8, 300)


def test_the_schedule_is_the_same_on_every_machine() -> None:
    """A seed in a bug report must mean the same years later; change this with the schedule only."""
    digest = hashlib.sha256(describe(7, 300).encode()).hexdigest()
    assert digest[:16] == "3dd963bc4521bc1b"


def test_the_command_shows_the_plan() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--plan", "--seed", "7", "--minutes", "5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == describe(7, 300) + "\n"


def test_every_kind_comes_before_any_comes_again() -> None:
    faults = [fault.kind for fault in plan(7, 3600)]
    for start in range(0, len(faults) - len(KINDS), len(KINDS)):
        assert sorted(faults[start : start + len(KINDS)]) == sorted(KINDS)


def test_faults_end_in_time_and_are_longer_or_shorter_than_a_lease() -> None:
    for seed in range(50):
        for fault in plan(seed, 120):
            assert fault.at + fault.seconds < 120
            if fault.kind in ("pause", "isolate"):
                assert fault.seconds > LEASE
            if fault.kind in ("stutter", "slots", "lock"):
                assert fault.seconds < LEASE
