"""Migrations run forward, once, one at a time; changed files are noticed; functions and schemas."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError, SchemaError, UsageError
from inboxd.settings import Database as Settings
from inboxd.store import catalogue, migrations
from inboxd.store.session import connect
from inboxd.store.statements import render
from tests.store.migrating import MORE, check, drop_roles, may_call, named, ship
from tests.support import Database, ExternalServer, create, drop
from tests.support.older import unpack
from tests.support.rows import daemon_session, settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database that has not been migrated."""
    database = create(server)
    yield database
    drop(server, database)


# ------------------------------------------------------------------------------------ running


async def test_fresh_database_is_migrated(empty: Database) -> None:
    with pytest.raises(SchemaError, match="inboxd migrate"):
        await check(empty)
    ran = await migrations.migrate(settings_of(empty))
    assert ran == migrations.MigrationPlan(migrations.shipped(), migrations.functions())
    await check(empty)
    assert not await migrations.migrate(settings_of(empty)), "a second run does nothing"


async def test_many_migrators_at_once(empty: Database) -> None:
    ran = await _migrate_at_once(empty, 4)
    assert ran == [migrations.MigrationPlan(migrations.shipped(), migrations.functions())]


async def test_migrate_runs_up_to_a_version(empty: Database) -> None:
    await migrations.migrate(settings_of(empty), to=1)
    with pytest.raises(SchemaError, match=r"is at version 1.*inboxd migrate"):
        await check(empty)
    made = "select count(*) from pg_proc where pronamespace = 'inboxd'::regnamespace"
    assert await empty.fetchval(made) == 0, "functions wait for the tables that they need"
    with pytest.raises(UsageError, match="no migration 999"):
        await migrations.migrate(settings_of(empty), to=999)
    await migrations.migrate(settings_of(empty))
    with pytest.raises(UsageError, match="only go forward"):
        await migrations.migrate(settings_of(empty), to=1)


async def test_a_migration_that_fails_leaves_nothing(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = len(migrations.shipped())
    ship(tmp_path, monkeypatch, "-- oldest code: 1\nCREATE TABLE {schema}.half (); SELECT 1/0;")
    with pytest.raises((DatabaseError, SchemaError), match="division by zero"):
        await migrations.migrate(settings_of(empty))
    versions = await empty.fetch("select version from inboxd.schema_migrations order by 1")
    assert len(versions) == numbers
    assert await empty.fetchval("select to_regclass('inboxd.half')") is None


async def test_statements_that_are_all_indented_run(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(tmp_path, monkeypatch, f"{MORE}  -- Indented too.\n  CREATE TABLE {{schema}}.more ();")
    await migrations.migrate(settings_of(database))
    assert await database.fetchval("select to_regclass('inboxd.more') is not null")


async def test_a_header_alone_is_only_recorded(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(tmp_path, monkeypatch, f"{MORE}\n  -- Indented.\n")
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.migrations] == ["more"]
    await check(database)


async def test_a_changed_file_is_noticed(database: Database) -> None:
    await database.execute("update inboxd.schema_migrations set checksum = 'x' where version = 1")
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await migrations.migrate(settings_of(database))
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await check(database)


@pytest.mark.parametrize(
    "ran",
    [
        "delete from inboxd.schema_migrations where version > 1",
        "insert into inboxd.schema_migrations values (300, 'last', 299, 'x')",
    ],
)
async def test_a_schema_from_before_the_first_release_is_refused(
    database: Database, ran: str
) -> None:
    """Numbered files made its functions, and there were more of them."""
    await database.execute(
        f"update inboxd.schema_migrations set checksum = 'x'; {ran};"
        " drop table inboxd.schema_functions"
    )
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await migrations.migrate(settings_of(database))
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await check(database)


@pytest.mark.parametrize(("oldest", "fits"), [(-1, True), (0, True), (1, False)])
async def test_newer_schema_names_the_oldest_code_that_fits(
    database: Database, oldest: int, fits: bool
) -> None:
    code = migrations.code_version()
    await database.execute(
        f"insert into inboxd.schema_migrations (version, name, oldest_code, checksum)"
        f" values ({code + 1}, 'of_tomorrow', {code + oldest}, 'x')"
    )
    if fits:
        await check(database)
    else:
        with pytest.raises(SchemaError, match="upgrade inboxd"):
            await check(database)


def test_a_header_names_the_oldest_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship(tmp_path, monkeypatch, "SELECT 1")
    with pytest.raises(SchemaError, match="oldest code"):
        migrations.shipped()


async def _migrate_at_once(database: Database, times: int) -> list[migrations.MigrationPlan]:
    """Migrate several times at once; returns the plans that were not empty."""
    ran: list[migrations.MigrationPlan] = []

    async def migrate() -> None:
        ran.append(await migrations.migrate(settings_of(database)))

    async with anyio.create_task_group() as tasks:
        for _ in range(times):
            tasks.start_soon(migrate)
    return [each for each in ran if each]


# ---------------------------------------------------------------------------------- functions

ROLES = ("producer", "worker")
# Functions that are called while a schema is migrated.
CALLED = (
    ("producer", "emit_event('test.noop')"),
    ("producer", "send_command('test.noop', unique_key => 'k')"),
    ("producer", """send_batch('b', '[{"type": "test.noop"}]')"""),
    ("producer", """send_workflow('w', '[{"name": "a", "type": "test.noop"}]')"""),
    ("worker", "purge_audit('30 days', 10)"),
    ("worker", "make_partitions(3)"),
)


def _function(name: str, says: str, roles: str = "worker") -> str:
    return (
        f"-- roles: {roles}\nCREATE OR REPLACE FUNCTION {{schema}}.{name}(given text) RETURNS text"
        f" LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT {says} $$;\n"
    )


async def test_a_function_is_made_again_when_its_text_changes(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"beginning": _function("beginning", "'changed'", "producer")}
    ship(tmp_path, monkeypatch, functions=changed)
    with pytest.raises(
        SchemaError, match=r"other versions of them: beginning; run: inboxd migrate"
    ):
        await check(database)
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.functions] == ["beginning"]
    assert not ran.migrations
    assert await database.fetchval("select inboxd.beginning('x')") == "changed"
    assert await may_call(database, "beginning(text)", "inboxd_producer")
    assert not await may_call(database, "beginning(text)", "inboxd_worker"), "not in its roles"
    await check(database)
    assert not await migrations.migrate(settings_of(database))


async def test_functions_are_made_by_one_migrator_at_a_time(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"beginning": _function("beginning", "'changed'"), "new": _function("new", "'new'")}
    ship(tmp_path, monkeypatch, functions=changed)
    ran = await _migrate_at_once(database, 3)
    assert [[each.name for each in plan.functions] for plan in ran] == [["beginning", "new"]]
    assert await may_call(database, "new(text)", "inboxd_worker")
    assert not await may_call(database, "new(text)", "inboxd_producer"), "not in its roles"


@pytest.mark.parametrize("first", [False, True])
async def test_failing_function_leaves_all_functions_unchanged(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    changed = {
        "beginning": _function("beginning", "'changed'"),
        "wrong": _function("wrong", "given").replace("RETURNS text", "RETURNS nothing"),
    }
    more = MORE + ("-- functions: first\n" if first else "") + "CREATE TABLE {schema}.more ();"
    ship(tmp_path, monkeypatch, more, changed)
    with pytest.raises((DatabaseError, SchemaError), match="nothing"):
        await migrations.migrate(settings_of(database))
    assert await database.fetchval("select inboxd.beginning('x')") == "x"
    there = await database.fetchval("select to_regclass('inboxd.more') is not null")
    assert there is not first, "earlier migrations stay, those that need the functions wait"
    (tmp_path / "functions" / "wrong.sql").unlink()
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.functions] == ["beginning"]
    assert len(ran.migrations) == int(first)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("", "x"),
        ("; new texts: beginning, gone", "newer"),
        ("\nSELECT {schema}.beginning('x');", "newer"),
    ],
)
async def test_only_needed_functions_are_made_before_a_numbered_file(
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    needs: str,
    said: str,
) -> None:
    """Other functions may be about tables of later files, which may fail."""
    changed = {"beginning": _function("beginning", "'newer'"), "new": _function("new", "'new'")}
    ship(tmp_path, monkeypatch, f"{MORE}-- functions: first{needs}\n", changed)
    fails = migrations.code_version() + 1
    (tmp_path / f"{fails:04d}_fails.sql").write_text(f"{MORE}SELECT 1/0;")
    planned = migrations.pending(await _applied(database), fails - 1)
    with pytest.raises((DatabaseError, SchemaError), match="division by zero"):
        await migrations.migrate(settings_of(database))
    assert await database.fetchval("select inboxd.beginning('x')") == said
    assert await database.fetchval("select inboxd.new('x')") == "new"
    assert [each.name for each in planned.functions] == (["beginning", "new"] if needs else ["new"])
    (tmp_path / f"{fails:04d}_fails.sql").unlink()
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.functions] == ([] if needs else ["beginning"])
    assert await database.fetchval("select inboxd.beginning('x')") == "newer"
    await check(database)


async def test_function_with_a_new_result_is_made_in_the_transaction_that_drops_the_old_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No session finds it missing, although a later file fails."""
    other = _function("beginning", "7").replace("RETURNS text", "RETURNS integer")
    drops = "-- functions next: beginning\nDROP FUNCTION {schema}.beginning(text);"
    ship(tmp_path, monkeypatch, MORE + drops, {"beginning": other})
    fails = migrations.code_version() + 1
    (tmp_path / f"{fails:04d}_fails.sql").write_text(f"{MORE}SELECT 1/0;")
    with pytest.raises((DatabaseError, SchemaError), match="division by zero"):
        await migrations.migrate(settings_of(database))
    assert await database.fetchval("select inboxd.beginning('x')") == 7
    assert await may_call(database, "beginning(text)", "inboxd_worker")
    (tmp_path / f"{fails:04d}_fails.sql").unlink()
    await migrations.migrate(settings_of(database))
    await check(database)


async def test_functions_that_are_made_anew_keep_other_callers(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roles of an installation that has none of inboxd's roles."""
    stranger = f"inboxd_test_{uuid4().hex[:12]} x"
    other = _function("beginning", "7").replace("RETURNS text", "RETURNS integer")
    drops = "-- functions next: beginning\nDROP FUNCTION {schema}.beginning(text);"
    ship(tmp_path, monkeypatch, MORE + drops, {"beginning": other})
    await database.execute(f'create role "{stranger}"')
    try:
        await database.execute(
            f'grant execute on function inboxd.beginning to "{stranger}" with grant option;'
            "grant execute on function inboxd.beginning to inboxd_producer"
        )
        await migrations.migrate(settings_of(database))
        assert await database.fetchval("select inboxd.beginning('x')") == 7
        assert await may_call(database, "beginning(text)", stranger)
        assert await database.fetchval(
            "select has_function_privilege($1, 'inboxd.beginning(text)', $2)",
            *(stranger, "EXECUTE WITH GRANT OPTION"),
        )
        assert not await may_call(database, "beginning(text)", "inboxd_producer"), "by its file"
    finally:
        await database.execute(f'drop owned by "{stranger}"; drop role "{stranger}"')


async def test_migration_that_names_an_unknown_function_fails(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(tmp_path, monkeypatch, f"{MORE}-- functions next: beginnings\n")
    with pytest.raises(SchemaError, match=r"functions without a file: \['beginnings'\]"):
        await migrations.migrate(settings_of(database))


async def test_migration_names_the_object_that_keeps_a_function(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drops = "-- functions next: beginning\nDROP FUNCTION {schema}.beginning(text);"
    ship(tmp_path, monkeypatch, MORE + drops)
    await database.execute("create view public.theirs as select inboxd.beginning('x')")
    with pytest.raises(DatabaseError, match=r"an object of yours uses: .*view (public.)?theirs"):
        await migrations.migrate(settings_of(database))
    await database.execute("drop view public.theirs")
    await migrations.migrate(settings_of(database))


async def test_roles_get_the_rights_on_a_new_column_that_they_have_beside_it(
    empty: Database,
) -> None:
    stranger = f"inboxd_test_{uuid4().hex[:12]} x"
    await migrations.migrate(settings_of(empty), to=39)
    await empty.execute(f'create role "{stranger}"')
    try:
        await empty.execute(f'grant insert (type, deadline) on inboxd.commands to "{stranger}"')
        await migrations.migrate(settings_of(empty))
        may = "select has_column_privilege($1, 'inboxd.commands', 'expires_at', $2)"
        for privilege in ("insert", "select", "update"):
            assert await empty.fetchval(may, stranger, privilege) is (privilege == "insert")
    finally:
        await empty.execute(f'drop owned by "{stranger}"; drop role "{stranger}"')


async def _applied(database: Database) -> migrations.SchemaState:
    async with daemon_session(database) as session:
        return await migrations.applied(session)


async def test_producers_and_workers_go_on_after_each_numbered_file(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that meets a lock timeout leaves the schema there until the next migrate."""
    with monkeypatch.context() as before:
        before.setattr(migrations, "migrations_folder", lambda: tmp_path / "migrations")
        unpack(tmp_path)
        await migrations.migrate(settings_of(empty))
    (was,) = await empty.fetch("select max(version) from inboxd.schema_migrations")
    numbers = [each.version for each in migrations.shipped() if each.version > was[0]]
    async with empty.connect() as connection:
        for number in numbers:
            await migrations.migrate(settings_of(empty), to=number)
            for role, call in CALLED:
                await connection.execute(f"SET ROLE inboxd_{role}; SELECT inboxd.{call}")
            await connection.execute("RESET ROLE")
    await check(empty)


async def test_older_release_keeps_functions_of_a_newer_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        changed = {"beginning": _function("beginning", "'newer'"), "stay_in_line": None}
        ship(tmp_path, newer, MORE, changed)
        await migrations.migrate(settings_of(database))
    assert not await migrations.migrate(settings_of(database))
    await check(database)
    assert await database.fetchval("select inboxd.beginning('x')") == "newer"
    there = "select count(*) from pg_proc where proname = 'stay_in_line'"
    assert await database.fetchval(there) == 1, "an older worker may call it"


async def test_missing_function_is_made_again(database: Database) -> None:
    await database.execute("drop function inboxd.is_unhandled")
    with pytest.raises(SchemaError, match=r"is_unhandled; run: inboxd migrate"):
        await check(database)
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.functions] == ["is_unhandled"]
    may = [await may_call(database, "is_unhandled(text,text)", f"inboxd_{role}") for role in ROLES]
    assert may == [False, True]
    await check(database)


async def test_new_signature_needs_a_migration_that_drops_the_old_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"beginning": _function("beginning", "1").replace("RETURNS text", "RETURNS integer")}
    with monkeypatch.context() as alone:
        ship(tmp_path, alone, functions=changed)
        with pytest.raises((DatabaseError, SchemaError), match="cannot change return type"):
            await migrations.migrate(settings_of(database))
    ship(tmp_path, monkeypatch, f"{MORE}DROP FUNCTION {{schema}}.beginning(text);", changed)
    await migrations.migrate(settings_of(database))
    assert await database.fetchval("select inboxd.beginning('x')") == 1
    assert await may_call(database, "beginning(text)", "inboxd_worker")


async def test_function_dropped_by_a_migration_is_made_again_from_its_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a migration may change a type in a function's signature."""
    ship(tmp_path, monkeypatch, f"{MORE}DROP FUNCTION {{schema}}.is_unhandled(text, text);")
    ran = await migrations.migrate(settings_of(database))
    assert [each.name for each in ran.functions] == ["is_unhandled"]
    await check(database)


def test_a_function_names_its_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _function("new", "given").replace("-- roles: worker", "-- roles: everybody")
    ship(tmp_path, monkeypatch, functions={"new": text})
    with pytest.raises(SchemaError, match=r"new\.sql: .*roles"):
        migrations.functions()


async def test_every_function_has_a_file_that_fits_the_schema(database: Database) -> None:
    """The tables and functions that it calls may not have existed when it was made."""
    made = await database.fetch(
        "select distinct proname from pg_proc where pronamespace = 'inboxd'::regnamespace"
    )
    assert {row["proname"] for row in made} == {each.name for each in migrations.functions()}
    async with database.connect() as connection:
        for each in migrations.functions():
            await connection.execute(render(each.text, "inboxd"))


# ------------------------------------------------------------------------------------ schemas


async def test_two_schemas_in_one_database(empty: Database) -> None:
    # Roles belong to the whole server, so this test uses names of its own.
    one, two = (f"{which}_{empty.name[-12:]}" for which in ("one", "two"))
    try:
        for schema in (one, two):
            await migrations.migrate(named(empty, schema))
            await check(empty, schema)
        await empty.execute(
            f"select {one}.emit_event('test.noop'); select {one}.send_command('test.noop')"
        )
        (counts,) = await empty.fetch(
            f"select (select count(*) from {one}.events), (select count(*) from {two}.events),"
            f" (select count(*) from {one}.commands), (select count(*) from {two}.commands)"
        )
        assert tuple(counts) == (1, 0, 1, 0)
        schemas = await empty.fetchval("select count(*) from pg_namespace where nspname = 'inboxd'")
        assert schemas == 0
        code = await empty.fetchval(
            "select string_agg(prosrc, '') from pg_proc where pronamespace = $1::regnamespace", one
        )
        named_by_default = re.search(r"\binboxd[._](?!notify|webhooks)", code)
        assert not named_by_default, "the code names the default schema"
    finally:
        await drop_roles(empty, one, two)


async def test_owner_without_the_right_to_create_roles_can_migrate(
    server: Server | ExternalServer, empty: Database
) -> None:
    owner = f"{empty.name}_owner"
    await empty.execute(
        f"create role {owner} login; grant create on database {empty.name} to {owner}"
    )
    try:
        dsn = empty.dsn.replace("://postgres@", f"://{owner}@")
        settings = Settings.model_validate({"dsn": dsn, "schema": f"{empty.name[:20]}_s"})
        await migrations.migrate(settings)
        session = await connect(settings, "test")
        await migrations.check(session)
        session.connection.terminate()
    finally:
        await empty.execute(f"drop owned by {owner} cascade; drop role {owner}")


async def test_nothing_depends_on_the_search_path(database: Database) -> None:
    async with daemon_session(database) as session:
        await session.connection.execute("set search_path = pg_temp")
        await session.connection.execute(
            "create temporary table events (); create temporary table commands ()"
        )
        await session.connection.execute(
            "select inboxd.emit_event('test.noop', payload => to_jsonb(repeat('x', 4000)))"
        )
        await session.connection.execute("select inboxd.send_command('test.noop')")
        for name in ("survey_events", "survey_commands"):
            assert len(await session.fetch(name)) == 1


# ----------------------------------------------------------------------------------- snapshot


async def test_schema_matches_its_committed_description(database: Database) -> None:
    """To accept a change, run with INBOXD_TEST_SNAPSHOT=write, and commit the changed file."""
    async with daemon_session(database) as session:
        text = await catalogue.describe(session)
    if os.environ.get("INBOXD_TEST_SNAPSHOT") == "write":
        catalogue.FILE.write_text(text)
    assert text == catalogue.FILE.read_text()
