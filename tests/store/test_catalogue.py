"""The schema is compared with the release's description of it, and manual changes are named."""

from collections.abc import Iterator

import pytest

from inboxd.embedded import Server
from inboxd.settings import Database as Settings
from inboxd.store import catalogue
from inboxd.store.migrations import migrate
from inboxd.store.session import connect
from tests.support import Database, ExternalServer, create, drop

pytestmark = pytest.mark.anyio

_CHANGES = {
    "drop index inboxd.events_lane": ("index", "inboxd.events_lane", "missing"),
    "create index mine on inboxd.stats (type)": ("index", "inboxd.mine", "extra"),
    "alter table inboxd.limits add note text": ("column", "limits.note", "extra"),
    "alter table inboxd.audit drop reason": ("column", "audit.reason", "missing"),
    "alter table inboxd.stats alter count type numeric": ("column", "stats.count", "changed"),
    "alter table inboxd.workers set (fillfactor = 90)": ("settings", "workers", "changed"),
    "create table inboxd.notes (id int primary key)": ("table", "notes", "extra"),
    "drop table inboxd.replays": ("table", "replays", "missing"),
    "drop trigger events_body on inboxd.events": (
        "trigger",
        "inboxd.events events_body",
        "missing",
    ),
    "alter table inboxd.commands disable trigger commands_transition": (
        "trigger",
        "inboxd.commands commands_transition",
        "changed",
    ),
    "create or replace function inboxd.wake_commands() returns void language plpgsql "
    "security definer set search_path = pg_catalog, pg_temp as $$ begin null; end $$": (
        "function",
        "inboxd.wake_commands()",
        "changed",
    ),
}


@pytest.fixture
def empty(server: Server | ExternalServer) -> Iterator[Database]:
    """A database that has not been migrated."""
    database = create(server)
    yield database
    drop(server, database)


async def _differences(
    database: Database, schema: str = "inboxd"
) -> tuple[int, list[catalogue.Difference]]:
    settings = Settings.model_validate({"dsn": database.dsn, "schema": schema})
    session = await connect(settings, "test")
    try:
        return await catalogue.differences(session)
    finally:
        session.connection.terminate()


async def test_manual_changes_are_named(database: Database) -> None:
    compared, found = await _differences(database)
    assert compared > 300
    assert not found
    for change in _CHANGES:
        await database.execute(change)
    _, found = await _differences(database)
    assert {(each.kind, each.name, each.how) for each in found} == set(_CHANGES.values())


async def test_changed_options_of_a_function_are_restored_from_its_file(database: Database) -> None:
    names = await database.fetch(
        "select oid::regprocedure::text from pg_proc where pronamespace = 'inboxd'::regnamespace"
    )
    for (name,) in names:
        await database.execute(f"alter function {name} set work_mem = '1MB'")
    _, found = await _differences(database)
    assert {each.name for each in found} == {name for (name,) in names}
    for each in found:
        await database.execute(each.statement)
    assert (await _differences(database))[1] == []


async def test_leftover_functions_are_told_from_foreign_ones(database: Database) -> None:
    for name in ("older", "mine"):
        await database.execute(
            f"create function inboxd.{name}() returns void language sql as 'select'"
        )
    await database.execute(
        "insert into inboxd.schema_functions (name, checksum) values ('older', 'x'), ('gone', 'x')"
    )
    _, found = await _differences(database)
    assert {(each.name, each.how) for each in found} == {
        ("inboxd.older()", "left"),
        ("inboxd.mine()", "extra"),
    }


@pytest.mark.parametrize("schema", ["c", "events"])
async def test_schema_of_any_name_has_no_differences(empty: Database, schema: str) -> None:
    """One of the names is also a word in the statements."""
    await migrate(Settings.model_validate({"dsn": empty.dsn, "schema": schema}))
    assert (await _differences(empty, schema))[1] == []
