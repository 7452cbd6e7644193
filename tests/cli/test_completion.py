"""Completion: names of the settings' database for a shell; nothing if they cannot be read."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from inboxd.cli import completion
from tests.cli.conftest import Cli
from tests.support.waiting import patient

Sql = Callable[..., list[asyncpg.Record]]
Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return the completions of a line in bash."""
    monkeypatch.setattr(completion, "_WAIT_SECONDS", 60.0)  # a busy machine needs more than 1 s

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_INBOXD_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        result = cli()
        assert (result.code, result.err) == (0, "")
        return result.out.split()

    return ask


@pytest.fixture
def names(sql: Sql) -> None:
    """Write names as a worker declares them, and a dead letter."""
    sql(
        "insert into inboxd.declared_types (kind, type, queue, retry) values "
        "('event', 'shop.paid', null, '[]'), ('event', 'shop.picked', null, '[]'), "
        "('command', 'shop.pay', 'bank', '[]')"
    )
    sql("insert into inboxd.topics (name, mode, source) values ('parcels', 'single', 'shop')")
    sql(
        "insert into inboxd.schedules (name, cron, zone, kind, type, schema_version, payload, "
        "priority, missed, next_at, source) values ('nightly', '0 3 * * *', 'UTC', 'command', "
        "'shop.pay', 1, '{}', 0, 'once', now(), 'shop')"
    )
    sql(
        "insert into inboxd.commands (queue, type, status, fingerprint) "
        "values ('bank', 'shop.pay', 'failed', '5f2c1e0d9a7b3344')"
    )


def test_installed_plugins_are_completed(complete: Complete) -> None:
    assert complete("inboxd plugins show testpl") == ["testplugin"]


def test_webhook_sources_are_completed_from_settings(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "inboxd.toml"
    path.write_text('[inbound.webhooks.bank]\ntype = "a"\n[inbound.webhooks.bets]\n')
    monkeypatch.setenv("INBOXD_CONFIG", str(path))
    assert complete("inboxd webhooks pause b") == ["bank", "bets"]
    assert complete("inboxd webhooks send --source ba") == ["bank"]
    path.write_text("[")
    assert complete("inboxd webhooks resume b") == []


@pytest.mark.usefixtures("names")
def test_declared_names_are_completed(complete: Complete) -> None:
    asked = {
        "inboxd emit shop.pa": ["shop.paid"],
        "inboxd emit shop.paid --topic p": ["parcels"],
        "inboxd send shop.": ["shop.pay"],
        "inboxd send shop.pay --queue b": ["bank"],
        "inboxd events list --type shop.p": ["shop.paid", "shop.pay", "shop.picked"],
        "inboxd commands list --queue ": ["bank", "default"],
        "inboxd commands replay --group 5f": ["5f2c1e0d9a7b3344"],
        "inboxd failures show ": ["5f2c1e0d9a7b3344"],
        "inboxd topics show par": ["parcels"],
        "inboxd queues show ba": ["bank"],
        "inboxd pause topic p": ["parcels"],
        "inboxd pause type shop.pi": ["shop.picked"],
        "inboxd pause schedule ": ["nightly"],
        "inboxd emit nothing.like": [],
    }
    assert {line: complete(line) for line in asked} == asked


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(("shell", "offered"), [("zsh", '"shop.paid"'), ("fish", "shop.paid")])
def test_names_are_completed_in_other_shells(
    complete: Complete, monkeypatch: pytest.MonkeyPatch, cli: Cli, shell: str, offered: str
) -> None:
    assert complete("inboxd emit shop.pa") == ["shop.paid"]
    monkeypatch.setenv("_INBOXD_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "inboxd emit shop.pa")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert offered in cli().out


def test_fixed_words_are_completed(complete: Complete) -> None:
    assert complete("inboxd pause ty") == ["type"]
    assert complete("inboxd rehearse ev") == ["event"]
    assert complete("inboxd fail") == ["failures"]


@pytest.mark.usefixtures("names")
def test_settings_file_of_the_line_is_used(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = os.environ["INBOXD_DATABASE__DSN"]
    monkeypatch.delenv("INBOXD_DATABASE__DSN")
    file = tmp_path / "config.toml"
    file.write_text(f'database.dsn = "{dsn}"\nqueues.barrels.concurrency = 1\n')
    for line in (f"inboxd -c {file} queues show ba", f"inboxd queues show -c {file} ba"):
        assert complete(line) == ["bank", "barrels"]
    monkeypatch.setenv("INBOXD_CONFIG", str(file))
    assert complete("inboxd queues show ba") == ["bank", "barrels"]


def test_errors_complete_nothing(
    complete: Complete, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete(f"inboxd -c {tmp_path / 'nowhere.toml'} emit sh") == []
    (tmp_path / "broken.toml").write_text("[")
    assert complete(f"inboxd -c {tmp_path / 'broken.toml'} emit sh") == []
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://127.0.0.1:1/nobody")
    assert complete("inboxd emit sh") == []


def test_completion_does_not_wait_for_a_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = os.environ | {
            "INBOXD_DATABASE__DSN": f"postgresql://127.0.0.1:{silent.getsockname()[1]}/nobody",
            "INBOXD_DATABASE__CONNECT_TIMEOUT": "1h",
            "_INBOXD_COMPLETE": "complete_bash",
            "COMP_WORDS": "inboxd emit sh",
            "COMP_CWORD": "2",
        }
        done = subprocess.run(
            [sys.executable, "-m", "inboxd"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=patient(60),
            check=True,
        )
    assert (done.stdout, done.stderr) == ("", "")
