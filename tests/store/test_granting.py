"""Roles and privileges: lost ones are granted again, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.embedded import Server
from inboxd.errors import SchemaError
from inboxd.store import listing, migrations
from inboxd.store.session import Session
from inboxd.store.statements import Statements
from tests.store.migrating import MORE, drop_roles, may_call, named, ship
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database that has not been migrated."""
    database = create(server)
    yield database
    drop(server, database)


def test_blocks_of_grants_can_run_again() -> None:
    """`migrate --grants` runs blocks of grants again: they only grant, revoke and make roles."""
    verb = re.compile(
        r"\b(GRANT |REVOKE |CREATE \w+|ALTER \w+|DROP \w+|INSERT INTO|UPDATE \S+ SET)"
    )
    for migration in migrations.shipped():
        said = re.findall(r"\bGRANT ", re.sub(r"--.*", "", migration.text))
        blocks = [re.sub(r"--.*", "", block) for block in migration.grants]
        verbs = [found for block in blocks for found in verb.findall(block)]
        assert set(verbs) <= {"GRANT ", "REVOKE ", "CREATE ROLE"}, migration.label
        assert verbs.count("GRANT ") == len(said), (
            f"{migration.label}: a grant outside of the blocks"
        )


async def test_lost_privileges_are_granted_again(database: Database) -> None:
    await database.execute(
        "revoke execute on function inboxd.put_away from inboxd_worker;"
        "grant execute on function inboxd.put_away to public, inboxd_producer;"
        "create function inboxd.left_over() returns integer language sql as 'select 1';"
        "insert into inboxd.schema_functions (name, checksum) values ('left_over', 'older')"
    )
    assert await migrations.grant(settings_of(database)) == []
    for role, may in (("worker", True), ("producer", False)):
        assert await may_call(database, "put_away(bigint[],text)", f"inboxd_{role}") is may
        assert not await may_call(database, "left_over()", f"inboxd_{role}")


async def test_roles_of_a_new_schema_have_all_their_privileges(empty: Database) -> None:
    """Functions are made before some roles; a server that has the roles would hide an error."""
    schema = f"new_{empty.name[-12:]}"
    settings = named(empty, schema)
    await migrations.migrate(settings)
    try:
        async with empty.connect() as connection:
            session = Session(connection, Statements(schema))
            lacking = {
                whose: await listing.missing_privileges(session, f"{schema}_{whose}", whose)
                for whose in listing.WHOSE
            }
            assert lacking == {whose: [] for whose in listing.WHOSE}
        before = await _rights(empty, schema)
        assert await migrations.grant(settings) == []
        assert await _rights(empty, schema) == before, "a second run grants more"
    finally:
        await drop_roles(empty, schema)


async def _rights(database: Database, schema: str) -> list[tuple[str, str]]:
    """The grantees and privileges of each table, column and function."""
    rows = await database.fetch(
        "select p.proname::text as name, a.acl::text from pg_proc p, unnest(p.proacl) as a(acl)"
        " where p.pronamespace = $1::regnamespace union all "
        "select c.relname, a.acl::text from pg_class c, unnest(c.relacl) as a(acl)"
        " where c.relnamespace = $1::regnamespace union all "
        "select c.relname || '.' || t.attname, a.acl::text"
        "  from pg_class c join pg_attribute t on t.attrelid = c.oid, unnest(t.attacl) as a(acl)"
        " where c.relnamespace = $1::regnamespace",
        schema,
    )
    return sorted((row["name"], row["acl"]) for row in rows)


async def test_schema_of_another_release_gets_no_grants(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        ship(tmp_path, newer, MORE)
        with pytest.raises(SchemaError, match="run: inboxd migrate"):
            await migrations.grant(settings_of(database))
        await migrations.migrate(settings_of(database))
    with pytest.raises(SchemaError, match="of the release that migrated it"):
        await migrations.grant(settings_of(database))
