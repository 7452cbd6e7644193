"""All commands: help, speed, exit codes and errors."""

import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
import typer.main

from inboxd import errors
from inboxd.cli.exits import Exit, exit_code
from inboxd.main.app import app
from tests.cli.conftest import Cli
from tests.support.waiting import patient


def _commands(group: Any, above: str = "") -> dict[str, set[str]]:
    """Return every command with its long options."""
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():
        full = f"{above}{name}"
        if hasattr(command, "commands"):
            found |= _commands(command, f"{full} ")
        if not hasattr(command, "commands") or command.invoke_without_command:
            found[full] = {opt for param in command.params for opt in param.opts if "--" in opt}
    return found


def test_every_command_has_help_with_an_example(run_cli: Cli) -> None:
    for name in _commands(typer.main.get_command(app)):
        result = run_cli(*name.split(), "--help")
        assert result.code == 0
        assert f"inboxd {name}" in result.out
        assert "Examples:" in result.out
        for unmeant in ("<bool>", "<list[", "<str>"):
            assert unmeant not in result.out, name


def test_help_and_completion_import_no_slow_module() -> None:
    """Check the names of slow modules, because times on a busy machine prove nothing."""
    probe = (
        "import sys; sys.argv = ['inboxd', '--help']\n"
        "from inboxd.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pydantic', 'asyncpg', 'anyio', 'asyncio', 'uvloop', 'starlette', 'watchfiles'}\n"
        "print('imported', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        capture_output=True,
        text=True,
        check=True,
        timeout=patient(60),
    )
    assert done.stdout.endswith("imported []\n")


def test_version_and_module(run_cli: Cli) -> None:
    expected = f"inboxd {version('inboxd')}\n"
    assert run_cli("--version").out == expected
    done = subprocess.run(
        [sys.executable, "-m", "inboxd", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == expected


@pytest.mark.parametrize(
    ("typed", "there_is"),
    [
        ("replay", ["commands replay", "events replay", "failures replay", "webhooks replay"]),
        ("show 3", ["commands show", "events show", "topics show"]),
        ("commands pause x", ["pause", "webhooks pause"]),
    ],
)
def test_misplaced_command_is_named_with_its_groups(
    run_cli: Cli, typed: str, there_is: list[str]
) -> None:
    result = run_cli(*typed.split())
    assert (result.code, result.out) == (2, "")
    named = result.err.partition("Commands of this name: ")[2].partition(".\n")[0].split(", ")
    assert set(there_is) <= set(named), result.err


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("events list --status done", "'done' is not one of 'pending', "),
        ("events list --limit x", "Invalid value for '--limit'"),
        ("status --minutes 0", "Invalid value for '--minutes'"),
    ],
)
def test_wrong_value_has_a_message_of_inboxd(run_cli: Cli, typed: str, told: str) -> None:
    result = run_cli(*typed.split())
    assert (result.code, result.out) == (2, "")
    assert told in result.err
    for theirs in ("Value error", "Input should", "parse"):
        assert theirs not in result.err


def test_usage_errors(run_cli: Cli) -> None:
    for arguments in (["nonsense"], ["events", "nonsense"], ["events", "show"], ["run", "--fast"]):
        result = run_cli(*arguments)
        assert (result.code, result.out) == (2, "")
        assert "Usage" in result.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError(), 2),
        (errors.NotFound(), 1),
        (errors.Conflict(), 1),
        (errors.UnknownName(), 66),
        (errors.Unreachable(), 69),
        (errors.SettingsError(), 78),
        (errors.PluginError(), 78),
        (errors.SchemaError(), 78),
        (errors.DatabaseError(), 69),
        (errors.InboxdError(), 70),
        (ZeroDivisionError(), 70),
    ],
)
def test_exit_codes(error: Exception, code: int) -> None:
    assert exit_code(error) == code


@pytest.mark.parametrize("sqlstate", ["55P03", "57P03", "53300", "40P01", "08006"])
def test_transient_database_errors_exit_with_75(sqlstate: str) -> None:
    cause = Exception()
    cause.sqlstate = sqlstate  # type: ignore[attr-defined]
    error = errors.DatabaseError()
    error.__cause__ = cause
    assert exit_code(error) == 75


def test_unexpected_error_is_one_message_and_debug_adds_the_traceback(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_(*_: object) -> None:
        raise ZeroDivisionError("as told")

    monkeypatch.setattr("inboxd.settings.load", break_)
    result = run_cli("status")
    assert result.code == 70
    assert "ZeroDivisionError: as told" in result.err
    assert "--debug" in result.err
    assert "Traceback" not in result.err
    traced = run_cli("--debug", "status")
    assert traced.code == 70
    assert "Traceback" in traced.err


def test_control_characters_of_errors_are_replaced(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_(*_: object) -> None:
        raise errors.NotFound("no row \x1b[31mred\nsecond line")

    monkeypatch.setattr("inboxd.settings.load", break_)
    assert run_cli("status").err == "inboxd: no row \ufffd[31mred\nsecond line\n"


def test_completion_scripts(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_INBOXD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "inboxd eve")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert "events" in run_cli().out


@pytest.mark.parametrize("given", [["--version"], ["config", "schema"], ["--help"]])
def test_closed_or_full_output_has_its_own_exit_code(given: list[str]) -> None:
    """Cron and some supervisors close the output; a disk may be full."""

    def run(where: str) -> subprocess.CompletedProcess[str]:
        command = f'exec "$0" -m inboxd "$@" {where}'
        shell = ["sh", "-c", command, sys.executable, *given]
        return subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False)

    closed = run(">&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    full = run("> /dev/full")
    assert full.returncode == Exit.OUTPUT
    assert full.stderr == "inboxd: the output cannot be written: No space left on device\n"
    assert run(">&- 2>&-").returncode == 0
