"""Plugins' migrations run once, in order, each completely or not at all, beside inboxd's own."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError, PluginError, SchemaError
from inboxd.settings import Database as Settings
from inboxd.store import migrations, plugin_migrations
from inboxd.store.plugin_folders import shipped_by
from inboxd.store.plugin_migrations import FullPlan, migrate
from inboxd.store.session import connect
from tests.support import Database, ExternalServer, create, drop, eventually
from tests.support.plugins import install, write_migrations
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

ORDERS = "CREATE SCHEMA shop;\nCREATE TABLE shop.orders (id bigint PRIMARY KEY);\n"
PRICES = "ALTER TABLE shop.orders ADD price numeric;\nINSERT INTO shop.orders VALUES (1, 2);\n"

NOTES = """
CREATE TABLE shop.notes (id bigint REFERENCES shop.orders INITIALLY DEFERRED);
INSERT INTO shop.notes VALUES (9);
"""


class Ship(Protocol):
    """The type of the fixture `ship`."""

    def __call__(self, *texts: str, plugin: str = "shop") -> None:
        """Give a plugin these files, from 0001 on; a second call replaces them and may add some."""


@pytest.fixture
def ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ship:
    """Install plugins that have migrations."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(*texts: str, plugin: str = "shop") -> None:
        files = {f"{number:04d}_step.sql": text for number, text in enumerate(texts, 1)}
        if (tmp_path / f"{plugin}.py").exists():
            write_migrations(tmp_path, plugin, files)
        else:
            install(tmp_path, plugin, "", migrations=files)

    return write


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database that has not been migrated."""
    database = create(server)
    yield database
    drop(server, database)


async def _migrate(database: Database, *plugins: str) -> list[str]:
    """Migrate; returns the files of plugins that ran."""
    return _labels(await migrate(settings_of(database), plugins or ["shop"]))


def _labels(plan: FullPlan) -> list[str]:
    return [f"{folder.plugin} {file.version}" for folder, file in plan.plugins]


async def _check(database: Database, *plugins: str) -> None:
    session = await connect(settings_of(database), "test")
    try:
        await plugin_migrations.check(session, shipped_by(plugins or ["shop"]))
    finally:
        session.connection.terminate()


async def _recorded(database: Database) -> list[tuple[str, int]]:
    rows = await database.fetch(
        "select plugin, version from inboxd.plugin_migrations order by 1, 2"
    )
    return [tuple(row) for row in rows]


# ------------------------------------------------------------------------------------ running


async def test_own_migrations_run_before_plugins_in_the_order_of_names(
    empty: Database, ship: Ship
) -> None:
    ship("CREATE TABLE late AS SELECT count(*) AS orders FROM shop.orders;", plugin="zoo")
    ship(ORDERS, PRICES, "INSERT INTO inboxd.events (type) VALUES ('a.b');")
    ran = await migrate(settings_of(empty), ["zoo", "shop"])
    assert ran.own.migrations == migrations.shipped()
    assert _labels(ran) == ["shop 1", "shop 2", "shop 3", "zoo 1"]
    assert await empty.fetchval("select orders from late") == 1
    assert not await migrate(settings_of(empty), ["zoo", "shop"]), "a second run does nothing"
    rows = await empty.fetch("select distribution, applied_by from inboxd.plugin_migrations")
    assert {tuple(row) for row in rows} == {("shop 1.0", "postgres"), ("zoo 1.0", "postgres")}


async def test_only_new_files_run(database: Database, ship: Ship) -> None:
    ship(ORDERS)
    with pytest.raises(SchemaError, match=r"'shop'.*not run: 0001_step; run: inboxd migrate"):
        await _check(database)
    assert await _migrate(database) == ["shop 1"]
    await _check(database)
    ship(ORDERS, PRICES)
    with pytest.raises(SchemaError, match=r"not run: 0002_step; "):
        await _check(database)
    assert await _migrate(database) == ["shop 2"]
    await _check(database)


async def test_plugins_that_are_not_selected_are_left_alone(database: Database, ship: Ship) -> None:
    ship(ORDERS)
    ship("SELECT 1/0;", plugin="zoo")
    assert await _migrate(database, "shop") == ["shop 1"]
    await _check(database, "shop")
    assert not (
        await migrate(settings_of(database), ["shop"], to=migrations.code_version())
    ).plugins


async def test_up_to_a_version_of_inboxds_own_runs_none_of_plugins(
    empty: Database, ship: Ship
) -> None:
    ship(ORDERS)
    assert _labels(await migrate(settings_of(empty), ["shop"], to=3)) == []
    assert await _migrate(empty) == ["shop 1"], "the table of plugins' migrations exists now"


async def test_migrators_side_by_side_run_each_file_once(database: Database, ship: Ship) -> None:
    ship("SELECT pg_sleep(0.2);" + ORDERS, PRICES)
    ran: list[list[str]] = []

    async def run() -> None:
        ran.append(await _migrate(database))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(run)
    assert sorted(ran) == [[], [], ["shop 1", "shop 2"]]


async def test_text_of_a_file_is_run_unchanged(database: Database, ship: Ship) -> None:
    ship("CREATE TABLE plain (text text DEFAULT '{schema} %s $1 $$ \\\\');\n-- {schema}\n")
    assert await _migrate(database) == ["shop 1"]
    await database.execute("insert into plain default values")
    assert await database.fetchval("select text from plain") == "{schema} %s $1 $$ \\\\"


async def test_comments_alone_are_recorded(database: Database, ship: Ship) -> None:
    ship("-- Nothing yet.\n", "")
    assert await _migrate(database) == ["shop 1", "shop 2"]
    await _check(database)


async def test_settings_of_a_file_end_before_the_next_file(database: Database, ship: Ship) -> None:
    role = f"{database.name}_owner"
    await database.execute(
        f"create role {role}; grant create on database {database.name} to {role}"
    )
    try:
        ship(
            f"SELECT pg_catalog.set_config('search_path', '', false); SET ROLE {role};"
            "CREATE TEMPORARY TABLE notes (); SET statement_timeout = '1ms';"
            "CREATE SCHEMA owned;",
            "CREATE TABLE notes AS SELECT current_user AS me, current_setting('search_path') AS"
            " path FROM pg_sleep(0.05);",
        )
        assert await _migrate(database) == ["shop 1", "shop 2"]
        (note,) = await database.fetch("select me, path from public.notes")
        assert tuple(note) == ("postgres", '"$user", public')
        owner = await database.fetchval(
            "select nspowner::regrole::text from pg_namespace where nspname = 'owned'"
        )
        assert owner == role
    finally:
        await database.execute(f"drop owned by {role}; drop role {role}")


async def test_first_file_of_the_guide_grants_its_rights_to_the_workers_role(
    database: Database, ship: Ship
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text()
    first, second = re.findall(r"^```sql\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)[:2]
    ship(first, second)
    assert await _migrate(database) == ["shop 1", "shop 2"]
    may = "select has_table_privilege('inboxd_worker', 'shop.orders', $1)"
    assert [await database.fetchval(may, each) for each in ("UPDATE", "DELETE")] == [True, False]


# ------------------------------------------------------------------------------------- refused


async def test_a_file_that_was_changed_after_it_ran_is_refused_by_name(
    database: Database, ship: Ship
) -> None:
    ship(ORDERS, PRICES)
    await _migrate(database)
    ship(ORDERS, PRICES + "-- A comment.\n", "CREATE TABLE later ();")
    told = r"'shop'.*0002_step ran with other contents \(from shop 1\.0\)"
    with pytest.raises(SchemaError, match=told):
        await _migrate(database)
    with pytest.raises(SchemaError, match=told):
        await _check(database)
    assert await database.fetchval("select to_regclass('later')") is None


async def test_line_ends_of_windows_do_not_count_as_a_change(
    database: Database, ship: Ship
) -> None:
    ship(ORDERS)
    await _migrate(database)
    ship(ORDERS.replace("\n", "\r\n"))
    await _check(database)


async def test_older_plugin_works_with_the_schema_of_a_newer_one(
    database: Database, ship: Ship, tmp_path: Path
) -> None:
    ship(ORDERS, PRICES)
    await _migrate(database)
    (tmp_path / "shop_migrations" / "0002_step.sql").unlink()
    await _check(database)
    assert await _migrate(database) == []


async def test_record_of_a_removed_plugin_is_shown_without_an_error(
    database: Database, ship: Ship
) -> None:
    ship(ORDERS)
    await _migrate(database)
    session = await connect(settings_of(database), "test")
    try:
        [state] = await plugin_migrations.states(session, [])
    finally:
        session.connection.terminate()
    assert (state.plugin, state.folder, state.version) == ("shop", None, 1)
    plugin_migrations.fits([state])


async def test_a_wrong_folder_is_refused_before_anything_runs(
    empty: Database, ship: Ship, tmp_path: Path
) -> None:
    ship(ORDERS)
    ship("", plugin="zoo")
    write_migrations(tmp_path, "zoo", {"5_x.sql": ""})
    with pytest.raises(PluginError, match=r"5_x\.sql is not a valid name"):
        await migrate(settings_of(empty), ["shop", "zoo"])
    assert await empty.fetchval("select to_regclass('inboxd.events')") is None


# -------------------------------------------------------------------------------------- failing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "SELECT 1;\n\n  SELEC 2;\n",
            r'failed at line 3, column 3: syntax error at or near "SELEC"',
        ),
        ("SELECT 1;\nSELECT nope\n  FROM shop.orders;", r'at line 2, column 8: column "nope" does'),
        ("CREATE TABLE shop.half ();\nSELECT 1/0;", "failed: division by zero"),
        ("SELECT 'ä', nope;", r"at line 1, column 13: column"),
        ("CREATE TABLE shop.half (); COMMIT; SELECT 1/0;", "remove BEGIN, COMMIT"),
        ("BEGIN; INSERT INTO shop.orders VALUES (7); COMMIT;", "remove BEGIN, COMMIT"),
        ("COPY shop.orders FROM STDIN;", "COPY from a client"),
        (
            "SELECT 1 AS id INTO shop.half;",
            r"use CREATE TABLE … AS instead of SELECT … INTO, and run",
        ),
        (
            "CREATE INDEX CONCURRENTLY slow ON shop.orders (id);",
            "alone into a file with the line «-- transaction: none»",
        ),
        (
            NOTES,
            "failed: insert or update on table",
        ),
    ],
)
async def test_failing_file_leaves_nothing_and_earlier_files_stay(
    database: Database, ship: Ship, text: str, told: str
) -> None:
    ship(ORDERS, text, PRICES)
    with pytest.raises(SchemaError, match=told) as caught:
        await _migrate(database)
    assert str(caught.value).startswith("plugin 'shop': migration 0002_step failed")
    assert "nothing of it stays" in str(caught.value)
    assert "inboxd migrate" in str(caught.value)
    assert await _recorded(database) == [("shop", 1)]
    for gone in ("shop.half", "shop.notes", "shop.slow"):
        assert await database.fetchval("select to_regclass($1)", gone) is None
    assert await database.fetchval("select count(*) from shop.orders") == 0
    ship(ORDERS, "-- Corrected.", PRICES)
    assert await _migrate(database) == ["shop 2", "shop 3"]


async def test_lock_timeout_is_a_temporary_error(database: Database, ship: Ship) -> None:
    ship(ORDERS)
    await _migrate(database)
    ship(ORDERS, f"SET LOCAL lock_timeout = '50ms';{PRICES}")
    async with database.connect() as reader, reader.transaction():
        await reader.execute("select from shop.orders")
        with pytest.raises(DatabaseError, match=r"0002_step.*lock timeout.*run again: inboxd mig"):
            await _migrate(database)
    assert await _migrate(database) == ["shop 2"]


async def test_error_names_a_missing_right_of_the_role(database: Database, ship: Ship) -> None:
    role = f"{database.name}_weak"
    await database.execute(f"create role {role}")
    try:
        ship(f"SET ROLE {role}; CREATE SCHEMA shop;")
        with pytest.raises(SchemaError, match=r"0001_step.*permission denied.*a role that may"):
            await _migrate(database)
    finally:
        await database.execute(f"drop role {role}")


# --------------------------------------------------------------------------------- transactions

NONE = "-- Large.\n-- transaction: none\n"


async def test_a_file_without_a_transaction_makes_an_index_beside_writers(
    database: Database, ship: Ship
) -> None:
    ship(ORDERS, f"{NONE}CREATE INDEX CONCURRENTLY beside ON shop.orders (id);")
    assert await _migrate(database) == ["shop 1", "shop 2"]
    assert await database.fetchval(
        "select indisvalid from pg_index where indexrelid = 'shop.beside'::regclass"
    )


async def test_file_without_a_transaction_waits_for_old_transactions(
    database: Database, ship: Ship
) -> None:
    ship(ORDERS, f"{NONE}CREATE INDEX CONCURRENTLY beside ON shop.orders (id);")
    impatient = Settings.model_validate({"dsn": database.dsn, "lock_timeout": "50ms"})
    waits = (
        "select exists (select from pg_stat_activity where datname = current_database()"
        " and query like '%CONCURRENTLY beside%' and wait_event_type = 'Lock'"
        " and clock_timestamp() - query_start > interval '300 ms')"
    )

    async def has_waited() -> bool:
        return bool(await database.fetchval(waits))

    async with (
        anyio.create_task_group() as tasks,
        database.connect() as reader,
        reader.transaction(isolation="repeatable_read"),
    ):
        await reader.execute("select 1")
        tasks.start_soon(migrate, impatient, ["shop"])
        await eventually(has_waited)
    assert await _recorded(database) == [("shop", 1), ("shop", 2)]


async def test_a_file_without_a_transaction_that_fails_says_that_a_part_may_stay(
    database: Database, ship: Ship
) -> None:
    index = f"{NONE}CREATE UNIQUE INDEX CONCURRENTLY beside ON shop.orders ((id % 2));"
    ship(ORDERS + "INSERT INTO shop.orders VALUES (1), (3);", index)
    with pytest.raises(SchemaError, match=r"0002_step failed.*such as an invalid index: remove"):
        await _migrate(database)
    assert await _recorded(database) == [("shop", 1)]
    await database.execute("drop index shop.beside; delete from shop.orders where id = 3")
    assert await _migrate(database) == ["shop 2"]
