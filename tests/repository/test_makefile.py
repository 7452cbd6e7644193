"""`make` installs only the requirements of a target."""

import subprocess

import pytest

from tests.support.environments import ROOT


@pytest.mark.parametrize("target", ["dist", "wheel"])
def test_wheel_is_built_without_test_dependencies(target: str) -> None:
    asked = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [line for line in told.splitlines() if " install " in line and "pip" in line]
    assert [line.split()[-1] for line in installs] == ["'hatchling>=1.27'"]
    assert "hatchling build" in told
