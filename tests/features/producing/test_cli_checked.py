"""`inboxd emit` and `send` check payloads by the installed handlers."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.support.plugins import install

Sql = Callable[..., list[asyncpg.Record]]

HANDLERS = """
from pydantic import BaseModel

from inboxd import CommandContext, Event, EventContext, Handlers

handlers = Handlers("bank")


class Moved(BaseModel):
    account: str
    cents: int


@handlers.event("bank.moved")
async def on_moved(event: Event[Moved], ctx: EventContext) -> None: ...


@handlers.event("bank.moved", topic="archive")
async def archived(event: Event[dict[str, object]], ctx: EventContext) -> None: ...


@handlers.command("bank.tell", schema_version=2)
async def tell(command: Moved, ctx: CommandContext) -> None: ...
"""
FITS, FITS_NOT = '{"account": "A", "cents": 7}', '{"account": "A", "cents": "secret"}'


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[None]:
    """Install a plugin, and declare it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "bank")
    install(tmp_path, "bank", HANDLERS)
    assert cli("declare").code == 0
    yield
    sys.modules.pop("bank", None)


def test_refusal_of_a_payload_names_the_field_and_not_its_value(cli: Cli, sql: Sql) -> None:
    for arguments in (["emit", "bank.moved"], ["send", "bank.tell", "--schema-version", "2"]):
        refused = cli(*arguments, FITS_NOT)
        assert refused.code == 65
        assert " does not take it: cents: " in refused.err
        assert "Nothing was written; --force" in refused.err
        assert "secret" not in refused.err
    assert sql("select from inboxd.events union all select from inboxd.commands") == []
    assert cli("emit", "bank.moved", FITS).code == 0
    assert cli("emit", "bank.moved", FITS_NOT, "--topic", "archive").code == 0, "another handler"
    assert cli("emit", "bank.moved", FITS_NOT, "--force").code == 0


def test_payload_of_a_newer_schema_version_is_not_checked(cli: Cli) -> None:
    assert cli("send", "bank.tell", FITS_NOT, "--schema-version", 3).code == 0


def test_check_option_writes_nothing(cli: Cli, sql: Sql) -> None:
    taken = cli("emit", "bank.moved", FITS, "--check")
    assert (taken.code, taken.out) == (
        0,
        "Accepted by bank.on_moved, bank.archived; nothing was written.\n",
    )
    assert cli("emit", "bank.moved", FITS, "--check", "--json").json == {
        "taken_by": ["bank.on_moved", "bank.archived"]
    }
    assert cli("emit", "bank.moved", FITS_NOT, "--check").code == 65
    unhandled = cli("send", "bank.lost", "{}", "--check")
    assert unhandled.code == 1
    assert "no plugin that is installed here handles the command 'bank.lost'" in unhandled.err
    assert sql("select from inboxd.events union all select from inboxd.commands") == []


def test_lines_of_a_file_are_checked(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    lines = [{"type": "bank.moved", "payload": json.loads(each)} for each in (FITS, FITS_NOT)]
    file.write_text("\n".join(map(json.dumps, lines)))
    done = cli("emit", "--file", file, "--json")
    assert done.code == 65
    assert done.json["mistakes"][0]["line"] == 2
    assert "cents: " in done.json["mistakes"][0]["mistake"]
    assert "secret" not in done.out + done.err
    assert len(sql("select from inboxd.events where topic = 'default'")) == 1


def test_broken_plugin_does_not_stop_the_checks(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "broken", "raise RuntimeError('no')")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "broken,bank")
    assert cli("emit", "bank.moved", FITS).code == 0
    assert cli("emit", "bank.moved", FITS_NOT).code == 65, "the other plugin still checks"
