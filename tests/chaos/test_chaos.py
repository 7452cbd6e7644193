"""Workers, producers and every kind of fault side by side: the ledger is exact, the tables clean.

`make chaos` runs the same for as long as you like.
"""

import sys
from pathlib import Path

import pytest

from tests.chaos.run import run
from tests.chaos.schedule import KINDS, plan


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")  # captured, and so shown only if the test failed


@pytest.mark.timeout(400)
def test_a_short_chaos(tmp_path: Path) -> None:
    assert {fault.kind for fault in plan(10, 45)} == set(KINDS), "one of each"
    report = run(10, 45, tmp_path, _say)
    assert not report.violations, str(report)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_fresh_chaos(tmp_path: Path, fresh_seed: int) -> None:
    """Another one each time."""
    report = run(fresh_seed, 120, tmp_path, _say)
    assert not report.violations, f"{report}\nagain: make chaos SEED={fresh_seed} MINUTES=2"
