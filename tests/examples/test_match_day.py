"""The demo of the bets, as its reader runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import patient

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "options", [("--quick",), pytest.param((), marks=pytest.mark.soak)], ids=["quick", "whole"]
)
def test_every_bet_comes_out_right_and_nothing_is_left(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/bets/match_day.py"), *options],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(280),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every result counted once, every bet came out right." in done.stdout
    late = re.search(r"later than a second, from the spool \D*(\d+)", done.stdout)
    assert late is not None, done.stdout
    assert int(late[1]) > 0, "nothing was spooled"
    assert list(tmp_path.iterdir()) == []
