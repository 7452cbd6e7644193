"""Plugins' migrations on the command line: migrate, check, doctor and run."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support.plugins import install, write_migrations

HANDLERS = "from inboxd import Handlers\n\nhandlers = Handlers('shop')\n"
FILES = {
    "0001_orders.sql": "CREATE TABLE orders (id bigint);",
    "0002_prices.sql": "ALTER TABLE orders ADD price numeric;",
}
Write = Callable[[dict[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Iterator[Write]:
    """Install the plugin `shop`; returns a function that adds migrations to it."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "shop")
    install(tmp_path, "shop", HANDLERS, migrations=FILES)
    yield lambda files: write_migrations(tmp_path, "shop", files)
    sys.modules.pop("shop", None)


def test_plan_lists_files_and_migrate_runs_them(cli: Cli, write: Write) -> None:
    before = cli("migrate", "--check")
    assert before.code == 1
    assert before.out.splitlines()[1:] == [
        "Plugin 'shop' (shop 1.0) is at version 0; pending: 2",
        "  0001 orders",
        "  0002 prices",
    ]
    pending = [
        {"plugin": "shop", "version": 1, "name": "orders"},
        {"plugin": "shop", "version": 2, "name": "prices"},
    ]
    assert cli("migrate", "--check", "--json").json["pending"]["plugins"] == pending
    assert cli("migrate").out.endswith("plugin 'shop' at 2.\n")
    after = cli("migrate", "--check", "--json")
    assert after.code == 0
    assert after.json["plugins"] == [
        {"plugin": "shop", "distribution": "shop 1.0", "version": 2, "newest": 2}
    ]
    write({"0003_more.sql": "SELECT 1;"})
    assert cli("migrate", "--json").json["ran"]["plugins"] == [
        {"plugin": "shop", "version": 3, "name": "more"}
    ]


def test_pending_migrations_stop_workers_and_are_reported(cli: Cli, write: Write) -> None:
    told = "plugin 'shop': migrations that have not run: 0001_orders, 0002_prices"
    run = cli("run")
    assert run.code == 78
    where = r"database '\w+' at [\d.]+:\d+"
    assert re.search(rf"inboxd: {where}: {told}; run: inboxd migrate\n$", run.err)
    for command in ("check", "doctor"):
        result = cli(command)
        assert result.code == 1
        assert told in " ".join(result.out.split())
    (line,) = (x for x in cli("check", "--json").json["checks"] if x["verdict"] == "fail")
    assert (line["subject"], line["remedy"]) == ("plugin migrations", "run: inboxd migrate")
    assert cli("migrate").code == 0
    assert cli("check").code == 0
    assert "shop at version 2" in cli("check").out
    assert "shop at version 2" in cli("doctor").out


def test_changed_file_is_reported_by_all_commands(cli: Cli, write: Write) -> None:
    cli("migrate")
    write({"0001_orders.sql": "-- Changed."})
    for command, code in (("migrate", 78), ("run", 78), ("check", 1), ("doctor", 1)):
        result = cli(command)
        assert result.code == code, command
        told = " ".join((result.out + result.err).split())
        assert "plugin 'shop': migration 0001_orders ran with other contents" in told, command
        assert "restore the file and put the change into a new one" in told, command


def test_failing_migration_exits_with_78_and_a_remedy(cli: Cli, write: Write) -> None:
    write({"0003_broken.sql": "SELECT 1;\nSELEC 2;"})
    result = cli("migrate")
    assert result.code == 78
    assert result.err == (
        "inboxd: plugin 'shop': migration 0003_broken failed at line 2, column 1: syntax error at "
        'or near "SELEC"; nothing of it stays; correct the file, and run: inboxd migrate\n'
    )
    assert cli("migrate", "--check", "--json").json["plugins"][0]["version"] == 2


def test_invalid_file_name_is_reported_by_all_commands(cli: Cli, write: Write) -> None:
    write({"3_more.sql": ""})
    for command, code in (("migrate", 78), ("run", 78), ("check", 1), ("doctor", 1)):
        result = cli(command)
        assert result.code == code, command
        assert "3_more.sql is not a valid name" in " ".join((result.out + result.err).split())


def test_plugin_left_out_by_settings_is_not_migrated(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
    assert cli("migrate", "--check").code == 0
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "shop")
    cli("migrate")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
    told = "Plugin 'shop' is at version 2; not checked: worker.plugins leaves it out"
    assert told in cli("migrate").out
    assert cli("check").code == 0


def test_uninstalled_plugin_is_shown_without_an_error(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cli("migrate")
    (tmp_path / "shop-1.0.dist-info" / "entry_points.txt").write_text("")
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "testplugin")
    result = cli("migrate", "--check")
    assert result.code == 0
    assert "Plugin 'shop' is at version 2; not checked: it is not installed here" in result.out
    assert cli("check").code == 0
    assert "shop at version 2 (it is not installed here)" in " ".join(cli("doctor").out.split())


def test_older_plugin_on_newer_tables_is_a_notice(cli: Cli, write: Write, tmp_path: Path) -> None:
    cli("migrate")
    (tmp_path / "shop_migrations" / "0002_prices.sql").unlink()
    found = cli("doctor", "--json").json["findings"]
    (line,) = (each for each in found if each["subject"] == "plugin migrations")
    assert (line["verdict"], line["remedy"]) == ("notice", "upgrade this machine's plugin too")
