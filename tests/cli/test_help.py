"""Help at 80 columns, as `help.txt` has it: read the difference before you commit it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from inboxd.main.app import app
from tests.cli.conftest import Cli

FILE: Final = Path(__file__).with_name("help.txt")
WIDTH: Final = 80
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def test_help_is_as_it_was_read(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the file anew with INBOXD_TEST_SNAPSHOT=write, and commit the difference."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    paths = ["", *_paths(typer.main.get_command(app))]
    texts = [_shown(run_cli(*path.split(), "--help").out) for path in paths]
    text = "\n\n\n".join(texts) + "\n"
    if os.environ.get("INBOXD_TEST_SNAPSHOT") == "write":
        FILE.write_text(text, "utf-8")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text == FILE.read_text("utf-8")


def _paths(group: Any, above: str = "") -> Iterator[str]:
    """Each command and each group, by its whole name."""
    for name, command in group.commands.items():
        path = f"{above} {name}".strip()
        yield path
        if hasattr(command, "commands"):
            yield from _paths(command, path)


def _shown(printed: str) -> str:
    lines = _COLOURS.sub("", printed).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")
