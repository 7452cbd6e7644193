"""The page on the command line names every action of the audit."""

import re
from pathlib import Path
from typing import get_args

import inboxd
from inboxd.store.operations import Audited

PAGE = Path(inboxd.__file__).parents[1] / "docs/command-line.md"


def test_page_names_every_action() -> None:
    listed = PAGE.read_text("utf-8").partition("Actions of the audit: ")[2].partition("\n\n")[0]
    assert re.findall(r"`([a-z ]+)`", " ".join(listed.split())) == sorted(get_args(Audited))
