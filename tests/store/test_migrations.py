"""Migrations: forward, once, by one at a time, noticed when changed; and the schema they leave."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError, SchemaError, UsageError
from inboxd.settings import Database as Settings
from inboxd.store import catalogue, migrations
from inboxd.store.connections import connect
from inboxd.store.files import migrations_folder
from inboxd.store.statements import Statements
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import SQL, daemon_session, settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database that nobody has migrated."""
    database = create(server)
    yield database
    drop(server, database)


def _named(database: Database, schema: str) -> Settings:
    return Settings.model_validate({"dsn": database.dsn, "schema": schema})


async def _check(database: Database, schema: str = "inboxd") -> None:
    connection = await connect(_named(database, schema), "test")
    try:
        await migrations.check(connection, Statements(schema))
    finally:
        connection.terminate()


# ------------------------------------------------------------------------------------ running


async def test_a_fresh_database(empty: Database) -> None:
    with pytest.raises(SchemaError, match="inboxd migrate"):
        await _check(empty)
    ran = await migrations.migrate(settings_of(empty))
    assert [m.version for m in ran] == [m.version for m in migrations.shipped()]
    await _check(empty)
    assert await migrations.migrate(settings_of(empty)) == [], "a second run does nothing"


async def test_many_migrators_at_once(empty: Database) -> None:
    ran: list[migrations.Migration] = []

    async def migrate() -> None:
        ran.extend(await migrations.migrate(settings_of(empty)))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(migrate)
    assert [m.version for m in ran] == [m.version for m in migrations.shipped()], "each ran once"


async def test_up_to_a_version(empty: Database) -> None:
    await migrations.migrate(settings_of(empty), to=1)
    with pytest.raises(SchemaError, match=r"is at version 1.*inboxd migrate"):
        await _check(empty)
    with pytest.raises(UsageError, match="no migration 999"):
        await migrations.migrate(settings_of(empty), to=999)
    await migrations.migrate(settings_of(empty))
    with pytest.raises(UsageError, match="only go forward"):
        await migrations.migrate(settings_of(empty), to=1)


async def test_a_migration_that_fails_leaves_nothing(
    empty: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ship(tmp_path, monkeypatch, "-- oldest code: 1\nCREATE TABLE {schema}.half (); SELECT 1/0;")
    with pytest.raises((DatabaseError, SchemaError), match="division by zero"):
        await migrations.migrate(settings_of(empty))
    versions = await empty.fetch("select version from inboxd.schema_migrations order by 1")
    assert len(versions) == len(list(migrations_folder().glob("*.sql")))
    assert await empty.fetchval("select to_regclass('inboxd.half')") is None


async def test_a_changed_file_is_noticed(database: Database) -> None:
    await database.execute("update inboxd.schema_migrations set checksum = 'x' where version = 1")
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await migrations.migrate(settings_of(database))
    with pytest.raises(SchemaError, match="0001_tables ran with other contents"):
        await _check(database)


@pytest.mark.parametrize(("oldest", "fits"), [(-1, True), (0, True), (1, False)])
async def test_a_newer_schema_says_who_may_stay(
    database: Database, oldest: int, fits: bool
) -> None:
    code = migrations.code_version()
    await database.execute(
        f"insert into inboxd.schema_migrations (version, name, oldest_code, checksum)"
        f" values ({code + 1}, 'of_tomorrow', {code + oldest}, 'x')"
    )
    if fits:
        await _check(database)
    else:
        with pytest.raises(SchemaError, match="upgrade inboxd"):
            await _check(database)


def test_a_header_names_the_oldest_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ship(tmp_path, monkeypatch, "SELECT 1")
    with pytest.raises(SchemaError, match="oldest code"):
        migrations.shipped()


def _ship(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let the release have one migration more."""
    for file in migrations_folder().glob("*.sql"):
        (folder / file.name).write_text(file.read_text())
    (folder / f"{migrations.code_version() + 1:04d}_more.sql").write_text(text)
    monkeypatch.setattr(migrations, "migrations_folder", lambda: folder)


# ------------------------------------------------------------------------------------ schemas


async def test_two_schemas_in_one_database(empty: Database) -> None:
    # Roles belong to the whole server: names of this test's own.
    one, two = (f"{which}_{empty.name[-12:]}" for which in ("one", "two"))
    try:
        for schema in (one, two):
            await migrations.migrate(_named(empty, schema))
            await _check(empty, schema)
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
        assert not re.search(r"\binboxd[._](?!notify)", code), "nothing names the default schema"
    finally:
        roles = await empty.fetch(
            "select rolname from pg_roles where rolname like $1 or rolname like $2",
            f"{one}%",
            f"{two}%",
        )
        for role in roles:
            await empty.execute(f"drop owned by {role[0]}; drop role {role[0]}")


async def test_without_the_right_to_create_roles(
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
        connection = await connect(settings, "test")
        await migrations.check(connection, Statements(settings.schema_name))
        connection.terminate()
    finally:
        await empty.execute(f"drop owned by {owner} cascade; drop role {owner}")


async def test_nothing_depends_on_the_search_path(database: Database) -> None:
    async with daemon_session(database) as session:
        await session.execute("set search_path = pg_temp")
        await session.execute(
            "create temporary table events (); create temporary table commands ()"
        )
        await session.execute(
            "select inboxd.emit_event('test.noop', payload => to_jsonb(repeat('x', 4000)))"
        )
        await session.execute("select inboxd.send_command('test.noop')")
        for name in ("survey_events", "survey_commands"):
            assert len(await session.fetch(SQL[name])) == 1


# ----------------------------------------------------------------------------------- snapshot


async def test_the_schema_is_the_one_that_was_agreed(database: Database) -> None:
    """A change is seen: run with INBOXD_TEST_SNAPSHOT=write, and commit what changed."""
    async with daemon_session(database) as session:
        text = await catalogue.describe(session, SQL)
    if os.environ.get("INBOXD_TEST_SNAPSHOT") == "write":
        catalogue.FILE.write_text(text)
    assert text == catalogue.FILE.read_text()
