"""The page of the command line names every action of the audit."""

import re
from pathlib import Path
from typing import get_args

import inboxd
from inboxd.store.operations import Audited

PAGE = Path(inboxd.__file__).parents[1] / "docs/cli.md"


def test_page_names_every_action() -> None:
    (line,) = (
        line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `--action TEXT")
    )
    assert re.findall(r"`([a-z ]+)`", line) == sorted(get_args(Audited))
