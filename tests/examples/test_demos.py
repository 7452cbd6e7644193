"""Each demo succeeds three times in a row on a busy machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import patient

EXAMPLES = Path(__file__).parents[2] / "examples"
# The last sentence of each demo that found no fault.
DEMOS = {
    "school/demo.py": "Every student got exactly the e-mails that were due",
    "bets/match_day.py": "Every result counted once; every bet was settled correctly.",
    "accounts/outage.py": "every user has one account and one charge.",
}
TIMES = 3
# Each loop ends with the process that started it.
_BUSY = "import os\nbegan = os.getppid()\nwhile os.getppid() == began: sum(range(100_000))"


@pytest.fixture
def busy() -> Iterator[None]:
    """Run a busy loop for each core beside the demo."""
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    "options",
    [("--quick",), pytest.param((), marks=pytest.mark.soak)],
    ids=["quick", "whole"],
)
@pytest.mark.parametrize("demo", DEMOS)
def test_a_demo_succeeds_again_and_again(
    tmp_path: Path, demo: str, options: tuple[str, ...]
) -> None:
    for number in range(TIMES):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / demo), *options, "--timeout", "400"],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=patient(550),
        )
        assert done.returncode == 0, f"run {number + 1}:\n{done.stdout}{done.stderr}"
        assert DEMOS[demo] in done.stdout, done.stdout
        assert list(tmp_path.iterdir()) == [], "the demo left no files"
