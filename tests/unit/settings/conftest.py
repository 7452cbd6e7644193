"""Fixtures of the tests of settings."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Return a function that writes TOML into a file and returns its path."""

    def write(text: str) -> Path:
        path = tmp_path / "inboxd.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
