"""The demo of the bets, as a reader runs it."""

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
def test_every_bet_is_settled_correctly_and_no_file_is_left(
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
    assert "Every result counted once; every bet was settled correctly." in done.stdout
    late = re.search(r"more than a second later, from the spool \D*(\d+)", done.stdout)
    assert late is not None, done.stdout
    assert int(late[1]) > 0, "the spool stored no result"
    assert list(tmp_path.iterdir()) == []
