"""The supervisor lives long and does little: it imports little."""

import subprocess
import sys

from tests.support.waiting import patient


def test_it_imports_nothing_that_only_its_children_need() -> None:
    probe = (
        "import sys, inboxd.daemon.supervisor\n"
        "heavy = {'pydantic', 'asyncpg', 'uvloop', 'typer', 'prometheus_client', 'cronsim'}\n"
        "print('imported', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        timeout=patient(60),
    )
    assert done.stdout == "imported []\n"
