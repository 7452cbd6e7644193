"""mypy as a plugin's author sees it: strict mode, with none of our settings.

In a test: `assert_accepted(strict(file))`, where `strict` is a fixture.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

_ROOT = Path(__file__).parents[2]

# Returns the lines that mypy prints for a file.
StrictTypes: TypeAlias = Callable[[Path], str]


def strict_types(cache: Path) -> StrictTypes:
    """Run mypy; `cache` keeps its results for inboxd and the dependencies."""
    options = ["--strict", "--config-file=", "--follow-imports=silent", f"--cache-dir={cache}"]

    def ask(file: Path) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "mypy", *options, str(file)],
            env={**os.environ, "MYPYPATH": str(_ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not ran.stderr, ran.stderr
        assert ran.returncode == (": error: " in ran.stdout), ran.stdout
        return ran.stdout

    return ask


def assert_accepted(said: str) -> None:
    assert said.startswith("Success"), said
