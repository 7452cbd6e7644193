"""Debian's PostgreSQL, which has features that the embedded one lacks: TLS, LLVM, pg_dump.

In a test: `packaged(lambda folder: (folder / "pg_dump").exists(), "pg_dump")`.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def packaged(has: Callable[[Path], bool], what: str) -> Path:
    """The programs' folder of the newest PostgreSQL with a feature; skips the test without one."""
    found = Path("/usr/lib/postgresql").glob("*/bin")
    known = sorted(found, key=lambda path: int(path.parent.name), reverse=True)
    if given := os.environ.get("INBOXD_TEST_POSTGRES"):
        known.insert(0, Path(given))
    for folder in known:
        if (folder / "postgres").exists() and has(folder):
            return folder
    pytest.skip(f"no PostgreSQL with {what} is installed: apt install postgresql")
