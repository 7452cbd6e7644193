"""The supervisor lives long and does little, so it imports little."""

import subprocess
import sys

from tests.support.waiting import patient


def test_the_supervisor_does_not_import_libraries_of_its_children() -> None:
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
