"""Migrations of plugins are found without an import; all their problems are one message."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from inboxd.errors import PluginError
from inboxd.store.plugin_folders import names, shipped_by
from tests.support.plugins import install

NEVER = "raise AssertionError('the plugin was imported')\n"
GOOD = {"0001_orders.sql": "SELECT 1;", "0002_prices.sql": "SELECT 2;"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed distributions."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_files_of_a_plugin_are_found_in_order(site: Path) -> None:
    install(site, "shop", NEVER, migrations=GOOD)
    [folder] = shipped_by(["shop"])
    assert (folder.plugin, folder.distribution) == ("shop", "shop 1.0")
    assert [each.label for each in folder.migrations] == ["0001_orders", "0002_prices"]
    assert all(each.in_transaction for each in folder.migrations)
    assert "shop" in names()


@pytest.mark.parametrize("is_package", [False, True])
def test_a_folder_in_a_package_is_found_without_importing_it(site: Path, is_package: bool) -> None:
    folder = site / "store_plugin" / "db" / "migrations"
    folder.mkdir(parents=True)
    (folder / "0001_orders.sql").write_text("SELECT 1;")
    for place in (folder.parents[1], folder) if is_package else ():
        (place / "__init__.py").write_text(NEVER)
    point = "store = store_plugin.db.migrations"
    install(site, "store", NEVER, points=f"[inboxd.migrations]\n{point}\n")
    [found] = shipped_by(["store"])
    assert [each.label for each in found.migrations] == ["0001_orders"]


def test_only_wanted_plugins_are_found_by_name(site: Path) -> None:
    for name in ("zoo", "art", "mid"):
        install(site, name, NEVER, migrations=GOOD)
    assert [each.plugin for each in shipped_by(["zoo", "art", "other"])] == ["art", "zoo"]
    assert {"art", "mid", "zoo"} <= {each.plugin for each in shipped_by()}


def test_other_files_are_ignored(site: Path) -> None:
    beside = {"__init__.py": "", "README.md": "", ".#0003_draft.sql": "", "0003_old.sql~": ""}
    install(site, "shop", NEVER, migrations=GOOD | beside)
    [folder] = shipped_by(["shop"])
    assert len(folder.migrations) == len(GOOD)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, r"has no file NNNN_name\.sql"),
        ({"1_orders.sql": ""}, r"1_orders\.sql is not a valid name of a migration"),
        ({"0001-orders.sql": ""}, r"0001-orders\.sql is not a valid name"),
        ({"0001_orders.SQL": ""}, r"0001_orders\.SQL is not a valid name"),
        ({"0001_Orders.sql": ""}, r"0001_Orders\.sql is not a valid name"),
        ({"0002_orders.sql": ""}, r"0002_orders\.sql comes where 0001 is missing"),
        (GOOD | {"0004_more.sql": ""}, r"0004_more\.sql comes where 0003 is missing"),
        (GOOD | {"0002_other.sql": ""}, r"0002_other\.sql and 0002_prices\.sql have one number"),
        ({"0001_a.sql": "-- transaction: nope\n"}, r"«-- transaction: nope» is not a valid header"),
        (
            {"0001_a.sql": "-- transaction: none\nCOPY shop.orders\n  from stdin;"},
            r"0001_a\.sql: COPY … FROM STDIN cannot run",
        ),
        (
            {"0001_a.sql": "-- transaction: none\nSELECT '\n-- '; COPY shop.orders FROM STDIN;"},
            r"0001_a\.sql: COPY … FROM STDIN cannot run",
        ),
        (
            {"0001_a.sql": "-- transaction: none\nSELECT 'COPY a FROM STDIN';"},
            r"part of a string or a comment, rephrase that",
        ),
        ({"0001_a.sql": b"-- \xff\n"}, r"0001_a\.sql cannot be read: .*save it as UTF-8"),
    ],
)
def test_a_wrong_folder_is_refused_by_name(
    site: Path, files: Mapping[str, str | bytes], told: str
) -> None:
    install(site, "shop", NEVER, migrations=files)
    with pytest.raises(PluginError, match=rf"plugin 'shop' \(shop 1\.0\): .*{told}"):
        shipped_by(["shop"])


def test_comment_may_hold_words_of_refused_statements(site: Path) -> None:
    text = "-- transaction: none\n  -- No COPY a FROM STDIN here.\nVACUUM shop.orders;\n"
    install(site, "shop", NEVER, migrations={"0001_a.sql": text})
    [folder] = shipped_by(["shop"])
    assert folder.migrations[0].text == text


@pytest.mark.parametrize(
    "value", ["shop_nothing", "shop.nothing", "shop", "os.path:join", "shop_migrations:x", "1.2"]
)
def test_an_entry_point_that_leads_to_no_folder_is_refused(site: Path, value: str) -> None:
    install(site, "shop", NEVER, migrations=GOOD, points=f"[inboxd.migrations]\nshop = {value}\n")
    with pytest.raises(PluginError, match=r"plugin 'shop' .*leads to no folder"):
        shipped_by(["shop"])


def test_two_distributions_of_one_name_are_both_named(site: Path) -> None:
    install(site, "shop", NEVER, migrations=GOOD)
    install(site, "copy", NEVER, points="[inboxd.migrations]\nshop = shop_migrations\n")
    with pytest.raises(PluginError, match=r"copy 1\.0 and shop 1\.0 both have migrations"):
        shipped_by(["shop"])
    assert shipped_by(["another"]) == [], "migrations of unwanted plugins are not checked"


def test_all_problems_are_reported_at_once(site: Path) -> None:
    install(site, "shop", NEVER, migrations={"0002_a.sql": ""})
    install(site, "zoo", NEVER, migrations={"a.sql": ""})
    with pytest.raises(PluginError) as caught:
        shipped_by(["shop", "zoo"])
    first, *problems = str(caught.value).split("\n- ")
    assert first == "Problems with migrations of plugins (2):"
    assert [each.partition(" (")[0] for each in problems] == ["plugin 'shop'", "plugin 'zoo'"]
