"""`make` installs only the requirements of a target, and runs each test in one target."""

import os
import re
import shlex
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


def test_tests_with_rabbitmq_run_with_those_of_brokers_and_in_no_other_target() -> None:
    """So a change of a broker's code runs them, those of examples included."""
    places = [ROOT / each for each in pytest_of("test-brokers") if each.startswith("tests/")]
    needing = [
        file
        for file in ROOT.glob("tests/**/test_*.py")
        if re.search(r"(?m)^from tests\.support\.rabbitmq ", file.read_text("utf-8"))
    ]
    assert ROOT / "tests/examples/test_orders_sources.py" in needing
    assert [file for file in needing if not {file, *file.parents} & {*places}] == []
    ignored = {each.removeprefix("--ignore=") for each in pytest_of("test")}
    assert {str(each.relative_to(ROOT)) for each in places} <= ignored


def pytest_of(target: str) -> list[str]:
    """The command by which a target runs pytest, as words."""
    asked = ["make", "--dry-run", "--no-print-directory", target]
    environment = {"PATH": os.environ["PATH"]}  # not the variables of a `make` that runs this test
    told = subprocess.run(
        asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    (command,) = [line for line in told.splitlines() if "/pytest -m" in line]
    return shlex.split(command)
