"""The demo of the accounts, as its reader runs it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, str(ROOT / "examples/accounts/outage.py")]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", [("--quick",), ()], ids=["quick", "whole"])
def test_every_user_has_one_account_and_one_charge_and_nothing_is_left(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [*DEMO, *options],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every user has one account and one charge." in done.stdout
    assert re.search(r"provisioned later \D*[1-9]", done.stdout), done.stdout
    assert "\x1b" not in done.stdout, "no terminal: plain lines"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_stop_leaves_nothing(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        DEMO,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "breaker open" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 130, rest
    assert "Stopped." in rest
    assert list(tmp_path.iterdir()) == []
