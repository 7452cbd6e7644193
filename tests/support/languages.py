"""Servers with messages in another language: Debian's PostgreSQL, which has the translations.

    with server_speaking("de_DE") as server:
        ...

Known limit: the locale is compiled for the test; installed locales are not used.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inboxd.embedded import Server
from tests.support.databases import shared_folder, temporary_server

_PACKAGED = Path("/usr/lib/postgresql")
_SOURCES = Path("/usr/share/i18n/locales")
_PROGRAMS = ("postgres", "initdb", "pg_isready")


@contextmanager
def server_speaking(locale: str) -> Iterator[Server]:
    """A server whose messages are in the language of a locale, such as `de_DE`."""
    found = sorted(_PACKAGED.glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        pytest.skip("no PostgreSQL with translations is installed: apt install postgresql")
    localedef = shutil.which("localedef")
    if localedef is None or not (_SOURCES / locale).exists():
        pytest.skip("locales cannot be compiled: apt install locales")
    name = f"{locale}.UTF-8"
    with shared_folder() as folder:
        subprocess.run(
            [localedef, "-i", locale, "-f", "UTF-8", str(folder / name)],
            check=True,
            capture_output=True,
        )
        # The embedded server is started with an environment of its own, so scripts set LOCPATH.
        for program in _PROGRAMS:
            script = folder / program
            script.write_text(f'#!/bin/sh\nLOCPATH={folder} exec {found[-1] / program} "$@"\n')
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)
        with temporary_server(binaries=folder, lc_messages=name) as server:
            yield server
