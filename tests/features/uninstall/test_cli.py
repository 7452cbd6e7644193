"""`inboxd uninstall`: shows the plan, drops all in one transaction, keeps what others use."""

from collections.abc import Callable, Iterator

import anyio
import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.settings import Database as Settings
from inboxd.store.migrations import migrate
from tests.cli.conftest import Cli
from tests.support import Database, ExternalServer, create, drop

Sql = Callable[..., list[asyncpg.Record]]
ROLES = ("operator", "producer", "receiver", "viewer", "worker")


@pytest.fixture
def schema(server: Server | ExternalServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Set a schema name with roles of its own, because roles belong to the whole server."""
    name = f"gone_{id(monkeypatch):x}"[-20:]
    monkeypatch.setenv("INBOXD_DATABASE__SCHEMA", name)
    yield name
    rest = create(server)
    for role in (f"{name}_{each}" for each in ROLES):
        anyio.run(rest.execute, f"drop role if exists {role}")
    drop(server, rest)


@pytest.fixture
def database(server: Server | ExternalServer, schema: str) -> Iterator[Database]:
    """Make a database with inboxd in the schema."""
    fresh = create(server)
    _migrate(fresh, schema)
    yield fresh
    drop(server, fresh)


@pytest.fixture
def other(server: Server | ExternalServer, schema: str) -> Iterator[Database]:
    """Make another database on the server, with inboxd in a schema of the same name."""
    fresh = create(server)
    _migrate(fresh, schema)
    yield fresh
    drop(server, fresh)


def _migrate(database: Database, schema: str) -> None:
    anyio.run(migrate, Settings.model_validate({"dsn": database.dsn, "schema": schema}))


def _there(sql: Sql, schema: str) -> tuple[int, int]:
    """Return the numbers of existing schemas and roles."""
    [(schemas, roles)] = sql(
        "select (select count(*) from pg_namespace where nspname = $1),"
        " (select count(*) from pg_roles"
        "   where rolname = any ($2))",
        schema,
        [f"{schema}_{role}" for role in ROLES],
    )
    return schemas, roles


def test_uninstall_drops_all_and_a_second_run_finds_nothing(
    cli: Cli, sql: Sql, schema: str
) -> None:
    sql("create table mine as select 1 as kept")
    # A role with grants on other tables is dropped too.
    sql(f"grant select on mine to {schema}_worker")
    result = cli("uninstall", "--yes")
    assert result.code == 0, result.err
    assert f"Schema '{schema}' of database" in result.out
    assert f"Role {schema}_worker was dropped." in result.out
    assert "Tables of plugins, and all other schemas, stay." in result.out
    assert _there(sql, schema) == (0, 0)
    assert [row["kept"] for row in sql("select kept from mine")] == [1]
    again = cli("uninstall", "--yes")
    assert again.code == 0
    assert "Nothing to drop" in again.out
    assert cli("migrate").code == 0, "a new installation works"
    assert _there(sql, schema) == (1, len(ROLES))


def test_plan_names_unsettled_rows_members_and_plugins(
    cli: Cli, sql: Sql, schema: str, database: Database
) -> None:
    sql(f"insert into {schema}.events (type) values ('a.b'), ('a.c')")
    sql(f"insert into {schema}.commands (type) values ('a.d')")
    sql(
        f"insert into {schema}.plugin_migrations (plugin, version, name, checksum, distribution)"
        " values ('shop', 1, 'orders', 'x', 'shop 1.0')"
    )
    sql(f"create role {schema}_app in role {schema}_worker")
    try:
        for answer in (
            cli("uninstall", "--dry-run"),
            cli("uninstall", terminal=True, stdin="n\n"),
        ):
            assert "\nevents\t2\n" in answer.out
            unsettled = "UNSETTLED rows, which would never be handled: 2 events, 1 command."
            assert unsettled in answer.out
            members = f"(members lose it: {schema}_app)"
            assert f"Role {schema}_worker would be dropped {members}." in answer.out
            assert "Tables of plugins stay (shop)." in answer.out
            assert _there(sql, schema) == (1, len(ROLES))
        found = cli("uninstall", "--dry-run", "--json").json
        assert found["would_drop"]["unsettled"] == {"events": 2, "commands": 1}
        assert found["would_drop"]["roles"] == [*(f"{schema}_{role}" for role in ROLES)]
        assert found["stays"] == {"roles": {}, "plugins": {"shop": 1}}
        assert found["database"] == database.name
        assert cli("uninstall", terminal=True, stdin="y\n").code == 0
        assert _there(sql, schema) == (0, 0)
    finally:
        sql(f"drop role {schema}_app")


def test_uninstall_without_a_terminal_needs_yes(cli: Cli, sql: Sql, schema: str) -> None:
    refused = cli("uninstall")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert cli("uninstall", "--json").code == 2
    assert _there(sql, schema) == (1, len(ROLES))


def test_roles_used_by_another_database_stay(
    cli: Cli, sql: Sql, schema: str, other: Database
) -> None:
    result = cli("uninstall", "--yes")
    assert result.code == 0
    assert f"Role {schema}_worker stays: other databases of this server use it: {other.name}." in (
        result.out
    )
    assert _there(sql, schema) == (0, len(ROLES))
    again = cli("uninstall", "--yes")
    assert (again.code, "Nothing to drop" in again.out) == (0, True)
    ask = f"select count(*) from {schema}.events"
    assert anyio.run(other.fetchval, ask) == 0, "the other database is unchanged"


def test_role_that_owns_a_foreign_table_stays(cli: Cli, sql: Sql, schema: str) -> None:
    sql("create table theirs ()")
    sql(f"alter table theirs owner to {schema}_worker")
    result = cli("uninstall", "--yes", "--json").json
    assert result["dropped"]["roles"] == [
        f"{schema}_{role}" for role in ("operator", "producer", "receiver", "viewer")
    ]
    assert result["stays"]["roles"] == {f"{schema}_worker": "it owns: table theirs"}
    assert sql("select * from theirs") == []


def test_role_that_owns_only_parts_of_the_schema_is_dropped(
    cli: Cli, sql: Sql, schema: str
) -> None:
    sql(f"alter table {schema}.commands owner to {schema}_worker")
    sql(f"alter schema {schema} owner to {schema}_worker")
    sql(f"create policy seen on {schema}.events to {schema}_worker using (true)")
    sql(
        f"alter default privileges for role {schema}_worker in schema {schema}"
        " grant select on tables to postgres"
    )
    planned = cli("uninstall", "--dry-run", "--json").json
    assert planned["stays"]["roles"] == {}
    result = cli("uninstall", "--yes")
    assert result.code == 0, result.err
    assert _there(sql, schema) == (0, 0)


def test_living_workers_stop_an_uninstall_without_force(cli: Cli, sql: Sql, schema: str) -> None:
    sql(
        f"insert into {schema}.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'lives', 'h', 7, '0', '{}', '{}', '{}', 'x'),"
        " (gen_random_uuid(), 'silent', 'h', 8, '0', '{}', '{}', '{}', 'x')"
    )
    sql(f"update {schema}.workers set beat_at = now() - interval '1 h' where name = 'silent'")
    refused = cli("uninstall", "--yes")
    assert refused.code == 1
    assert "lives (h:7, heartbeat " in refused.err
    assert "silent" not in refused.err
    assert "--force" in refused.err
    assert _there(sql, schema) == (1, len(ROLES))
    assert cli("uninstall", "--yes", "--force").code == 0
    assert _there(sql, schema) == (0, 0)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        ("create table {schema}.mine ()", "contains foreign tables: mine"),
        ("create table {schema}.events_kept ()", "contains foreign tables: events_kept"),
        (
            "create materialized view {schema}.daily as select 1 as events",
            "contains foreign tables: daily",
        ),
        (
            "create view seen as select * from {schema}.events",
            "these depend on schema '{schema}': rule _RETURN on view seen",
        ),
        (
            "create table of_mine (id bigint references {schema}.events)",
            "constraint of_mine_id_fkey on table of_mine",
        ),
        ("create table kept (row {schema}.events)", "table kept"),
        (
            "create publication told for table {schema}.commands",
            "publication of table {schema}.commands in publication told",
        ),
        ("create publication told for tables in schema {schema}", "in publication told"),
        (
            (
                "create function {schema}.seen() returns event_trigger language plpgsql"
                " as 'begin end'; "
                "create event trigger watched on ddl_command_end execute function {schema}.seen()"
            ),
            "event trigger watched",
        ),
    ],
)
def test_foreign_objects_and_dependents_stop_an_uninstall(
    cli: Cli, sql: Sql, schema: str, make: str, told: str
) -> None:
    for statement in make.format(schema=schema).split("; "):
        sql(statement)
    result = cli("uninstall", "--yes", "--force")
    assert result.code == 1
    assert told.format(schema=schema) in result.err
    assert _there(sql, schema) == (1, len(ROLES))
    planned = cli("uninstall", "--dry-run")
    what = told.format(schema=schema).rpartition(": ")[2]
    assert "It would fail while these exist:" in planned.out
    assert what in planned.out
    assert any(what in each for each in cli("uninstall", "--dry-run", "--json").json["in_the_way"])


def test_detached_partition_is_dropped(cli: Cli, sql: Sql, schema: str) -> None:
    [(part,)] = sql(
        f"select inhrelid::regclass::text from pg_inherits"
        f" where inhparent = '{schema}.events_history'::regclass limit 1"
    )
    sql(f"alter table {schema}.events_history detach partition {part}")
    assert cli("uninstall", "--yes").code == 0


def test_foreign_objects_without_data_are_dropped(cli: Cli, sql: Sql, schema: str) -> None:
    sql(f"create statistics {schema}.pairs on type, topic from {schema}.events")
    sql(f"create policy seen on {schema}.events using (true)")
    sql(f"alter default privileges in schema {schema} grant select on tables to {schema}_worker")
    sql(f"create operator {schema}.=== (leftarg = int, rightarg = int, function = int4eq)")
    assert cli("uninstall", "--yes").code == 0
    assert _there(sql, schema) == (0, 0)


def test_migrator_that_made_the_roles_drops_them(
    cli: Cli, sql: Sql, schema: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migrator is not a superuser, as at most providers."""
    own, made = f"{schema}_own", f"{schema}_m"
    sql(f"create role {own} login createrole")
    sql(f"grant create on database {database.name} to {own}")
    try:
        monkeypatch.setenv(
            "INBOXD_DATABASE__DSN", database.dsn.replace("://postgres@", f"://{own}@")
        )
        monkeypatch.setenv("INBOXD_DATABASE__SCHEMA", made)
        assert cli("migrate").code == 0
        assert _there(sql, made) == (1, len(ROLES))
        assert cli("uninstall", "--yes").code == 0
        assert _there(sql, made) == (0, 0)
    finally:
        sql(f"drop owned by {own}")
        sql(f"drop role {own}")


def test_role_without_rights_changes_nothing(
    cli: Cli, sql: Sql, schema: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(f"create role {schema}_weak login in role {schema}_worker")
    dsn = database.dsn.replace("://postgres@", f"://{schema}_weak@")
    try:
        monkeypatch.setenv("INBOXD_DATABASE__DSN", dsn)
        result = cli("uninstall", "--yes")
        assert result.code == 69
        assert "must be owner of schema" in result.err
        assert _there(sql, schema) == (1, len(ROLES))
    finally:
        sql(f"drop role {schema}_weak")
