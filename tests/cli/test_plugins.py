"""`inboxd plugins`: installed plugins, failed imports, and the workers that have them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.support import StartWorker
from tests.support.plugins import install

Sql = Callable[..., list[asyncpg.Record]]

SHOP = """
from collections.abc import AsyncIterator, Iterator
from typing import Any

from inboxd import (
    BlockingCommandContext, Event, EventContext, FailedAttempt, Fixed, Handlers
)

handlers = Handlers("shop")
handlers.topic("loyalty", mode="sequential", key="/user")


@handlers.event("order.paid", topic="loyalty", schema_version=3)
async def add_points(event: Event[dict[str, Any]], ctx: EventContext) -> None: ...


@handlers.command("shop.ship", queue="vans", timeout="7s", retry=Fixed(base="3s", attempts=4))
def ship(command: dict[str, Any], ctx: BlockingCommandContext, van: Iterator) -> None: ...


@handlers.command("shop.render", executor="process")
def render(command: dict[str, Any]) -> None: ...


@handlers.lifespan(timeout="5s")
async def roads() -> AsyncIterator[bytes]:
    yield b""


@handlers.lifespan
async def van(roads: bytes) -> AsyncIterator[Iterator]:
    yield iter(())


@handlers.on_error
async def told(failed: FailedAttempt, van: Iterator) -> None: ...


handlers.schedule("daily", "0 3 * * *", {}, command="shop.ship", zone="Europe/Berlin")
"""
FILES = {"0001_orders.sql": "SELECT 1;", "0002_prices.sql": "SELECT 2;"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder of installed distributions, with the plugin `shop`."""
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "shop", SHOP, "1.2", migrations=FILES)
    yield tmp_path
    for file in tmp_path.glob("*.py"):
        sys.modules.pop(file.stem, None)


def _listed(cli: Cli) -> dict[str, dict[str, Any]]:
    return {each["plugin"]: each for each in cli("plugins", "list", "--json").json["plugins"]}


def test_plugin_is_shown_with_its_settings(
    cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[types."shop.ship"]\ntimeout = "9s"\n[types."of.another"]\ntimeout = "1s"\n')
    (shop,) = cli("plugins", "show", "shop", "--json", "-c", config).json["plugins"]
    assert (shop["distribution"], shop["entry_point"]) == ("shop 1.2", "shop = shop:handlers")
    assert (shop["taken"], shop["error"]) == (False, None)
    found = {each["type"]: each for each in shop["handlers"]}
    event, ship, render = (found[type_] for type_ in ("order.paid", "shop.ship", "shop.render"))
    assert (event["kind"], event["topic"], event["queue"]) == ("event", "loyalty", None)
    assert (event["schema_version"], event["executor"]) == (3, "loop")
    assert (ship["kind"], ship["topic"], ship["queue"]) == ("command", None, "vans")
    assert (ship["timeout"], ship["executor"], render["executor"]) == (9.0, "thread", "process")
    assert ship["retry"]["source"] == "plugin shop"
    assert "attempts 4" in ship["retry"]["policy"]
    assert shop["topics"] == [{"topic": "loyalty", "mode": "sequential"}]
    assert shop["queues"] == ["default", "vans"]
    daily = {"schedule": "shop.daily", "cron": "0 3 * * *", "zone": "Europe/Berlin"}
    assert shop["schedules"] == [daily | {"sends": "shop.ship"}]
    roads, van = shop["resources"]
    assert (roads["resource"], roads["timeout"], roads["taken_by"]) == ("bytes", 5, ["shop.van"])
    assert van["resource"] == "collections.abc.Iterator"
    assert van["taken_by"] == ["shop.ship", "shop.told"]
    assert shop["hooks"] == [{"hook": "on_error", "function": "shop.told"}]
    text = cli("plugins", "show", "shop").out
    shown = ("shop.ship\tvans", "loyalty\tsequential", "0002_prices\tpending")
    for told in (*shown, "bytes\tshop.roads\t5s\t1", "on_error\tshop.told"):
        assert told in text
    assert "No living worker has types of this plugin." in text


def test_states_of_migrations_are_shown(
    cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch, sql: Sql
) -> None:
    def states() -> list[str]:
        return [each["state"] for each in _listed(cli)["shop"]["migrations"]]

    assert states() == ["pending", "pending"]
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "shop")
    cli("migrate")
    assert states() == ["ran", "ran"]
    assert _listed(cli)["shop"]["migrations"][0]["applied_at"] is not None
    sql("update inboxd.plugin_migrations set checksum = 'x' where version = 1")
    (site / "shop_migrations" / "0002_prices.sql").unlink()
    assert states() == ["changed", "not here"]
    assert "2, 1 changed, 1 not here" in cli("plugins", "list").out


def test_failed_import_does_not_hide_other_plugins(cli: Cli, site: Path) -> None:
    install(site, "broken", "import nothing_like_this\n")
    install(site, "wrong", SHOP.replace('"shop"', '"wrong"').replace("-> None: ...", ": ..."))
    install(site, "files", SHOP, migrations={"1.sql": ""})
    found = _listed(cli)
    assert "No module named 'nothing_like_this'" in found["broken"]["error"]
    assert found["broken"]["workers"] is None
    assert "1.sql is not a valid name" in found["files"]["error"]
    assert found["shop"]["error"] is None
    result = cli("plugins", "list")
    assert result.code == 0
    assert "import failed: ModuleNotFoundError" in result.out


def test_workers_of_a_plugin_and_types_only_of_workers_are_shown(
    cli: Cli, site: Path, sql: Sql, start_worker: StartWorker
) -> None:
    sql(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'half', 'h', 7, '0', '{order.paid}',"
        " '{shop.ship,far.away}', '{}', 'x')"
    )

    async def look() -> None:
        worker = await start_worker()
        found, out = await anyio.to_thread.run_sync(
            lambda: (cli("plugins", "list", "--json").json, cli("plugins", "show", "shop").out)
        )
        plugins = {each["plugin"]: each for each in found["plugins"]}
        [half] = plugins["shop"]["workers"]
        assert (half["name"], half["types"], half["of"]) == ("half", 2, 3)
        [whole] = plugins["testplugin"]["workers"]
        assert whole["pid"] == worker.process.pid
        assert whole["types"] == whole["of"]
        assert found["elsewhere"] == [{"kind": "command", "type": "far.away", "workers": ["half"]}]
        assert "2 of 3" in out

    anyio.run(look)
    assert "Types only on other hosts' workers" in cli("plugins", "list").out


def test_plugin_known_only_to_the_database_is_listed(cli: Cli, site: Path, sql: Sql) -> None:
    sql(
        "insert into inboxd.plugin_migrations (plugin, version, name, checksum, distribution)"
        " values ('gone', 1, 'orders', 'x', 'gone 1.0')"
    )
    gone = _listed(cli)["gone"]
    assert (gone["distribution"], gone["entry_point"]) == (None, None)
    assert [each["state"] for each in gone["migrations"]] == ["not here"]
    assert "not installed here" in cli("plugins", "show", "gone").out


def test_plugins_are_shown_without_a_database(
    run_cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", "postgresql://nobody@127.0.0.1:1/nothing")
    result = run_cli("plugins", "show", "shop")
    assert result.code == 0
    assert "shop.ship\tvans" in result.out
    assert "0001_orders\tunknown" in result.out
    assert "Workers and executed migrations are unknown: cannot connect" in result.err
    found = run_cli("plugins", "list", "--json").json
    assert "cannot connect" in found["database_error"]
    assert all(each["workers"] is None for each in found["plugins"])


def test_unknown_plugin_is_refused_with_a_suggestion(cli: Cli, site: Path) -> None:
    result = cli("plugins", "show", "shopp")
    assert result.code == 66
    assert "no plugin 'shopp' is installed here" in result.err
    assert "did you mean 'shop'" in result.err
