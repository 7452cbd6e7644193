"""The command line for tests: arguments in, exit code and output out.

result = cli("commands", "show", 7, "--json")
assert (result.code, result.json["status"]) == (0, "pending")
"""

import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import asyncpg
import pytest

from inboxd.main import main
from tests.support import Database
from tests.support.pooler import way_to


@dataclass(frozen=True)
class Result:
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON document."""
        assert self.out, self.err
        return json.loads(self.out)


class Cli(Protocol):
    """The type of the fixtures `cli` and `run_cli`."""

    def __call__(self, *arguments: object, stdin: str = "", terminal: bool = False) -> Result:
        """Run `inboxd` with these arguments; terminal: standard input counts as a terminal."""


@pytest.fixture
def run_cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command in this process, with the settings of the test.

    Listeners take a free port, because a daemon of this machine may have the default one.
    """
    monkeypatch.setenv("INBOXD_HTTP__PORT", "0")

    def run(*arguments: object, stdin: str = "", terminal: bool = False) -> Result:
        typed = io.TextIOWrapper(io.BytesIO(stdin.encode()))
        monkeypatch.setattr(typed, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, "stdin", typed)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def cli(run_cli: Cli, database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Run a command in this process, on the test's database."""
    with way_to(database.dsn) as way:
        monkeypatch.setenv("INBOXD_DATABASE__DSN", way.dsn)
        for section, settings in way.config.items():
            for name, value in settings.items():
                monkeypatch.setenv(f"INBOXD_{section}__{name}".upper(), str(value))
        monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
        yield run_cli


@pytest.fixture
def sql(database: Database) -> Callable[..., list[asyncpg.Record]]:
    """Run SQL on the test's database; returns the rows."""

    def ask(query: str, *arguments: object) -> list[asyncpg.Record]:
        return anyio.run(database.fetch, query, *arguments)

    return ask
