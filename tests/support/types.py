"""What the editor of a plugin's author says: mypy in strict mode, with none of our settings."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

_ROOT = Path(__file__).parents[2]

# The lines that mypy prints for a file.
StrictTypes: TypeAlias = Callable[[Path], str]


def strict_types(cache: Path) -> StrictTypes:
    """Ask mypy, which remembers in `cache` what it has read of inboxd and its dependencies."""
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
    """The editor has nothing to say."""
    assert said.startswith("Success"), said
