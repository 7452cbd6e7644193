"""Workers, producers and every kind of fault side by side: the ledger is exact, the tables clean.

`make chaos MINUTES=60` does the same for an hour.
"""

import sys
from pathlib import Path

import pytest

from tests.chaos.run import Report, run
from tests.chaos.schedule import KINDS, plan
from tests.support.verdicts import Late, Violation


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # captured, so shown only if the test failed


# A promise that cannot hold while rows had no time to drain.
_OF_ALL_ROWS = "each row is settled as its script says"


def _hold(report: Report, again: str = "") -> None:
    """Assert that no promise is broken. Raises Violation, Late or AssertionError, in this order."""
    kinds = {each.promise: each.kind for each in report.broken}
    if "late" in kinds.values() and _OF_ALL_ROWS in kinds:
        kinds[_OF_ALL_ROWS] = "late"
    found = set(kinds.values())
    if "violation" in found:
        raise Violation(f"{report}{again}")
    if "late" in found:
        raise Late(f"{report}{again}")
    assert not found, f"{report}{again}"


@pytest.mark.timeout(400)
def test_a_short_chaos_breaks_no_promise(tmp_path: Path) -> None:
    assert {fault.kind for fault in plan(10, 45)} == set(KINDS), "the plan has each fault"
    report = run(10, 45, tmp_path, _say)
    _hold(report)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_fresh_chaos_breaks_no_promise(tmp_path: Path, fresh_seed: int) -> None:
    """The seed is new in each run."""
    report = run(fresh_seed, 120, tmp_path, _say)
    _hold(report, f"\nagain: make chaos SEED={fresh_seed} MINUTES=2")
