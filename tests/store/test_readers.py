"""Roles of viewers and operators: no way leads to columns that are not granted to them."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from inboxd.store import listing, migrations
from inboxd.store.session import Session
from inboxd.store.statements import Statements
from tests.support import Database

pytestmark = pytest.mark.anyio

# Columns that viewers may not read. A new column that is in no list fails the test below.
WITHHELD = {
    "events": {"payload", "headers", "errors"},
    "events_history": {"payload", "headers", "errors"},
    "commands": {"payload", "errors", "result", "progress"},
    "commands_history": {"payload", "errors", "result", "progress"},
    "receipts": {"body", "headers"},
    "kept_receipts": {"body", "headers"},
    "held_receipts": {"events"},
    "endpoints": {"url", "secrets", "last_failure"},
    "breakers": {"reason"},
    "receivers": {"trouble"},
    "message_readers": {"trouble"},
    "schedules": {"payload"},
    "story": {"error"},
    "actions": {"selection", "note"},
}
# Tables that a role may not read at all.
UNREAD = {
    "viewer": {"bodies", "dedup", "duplicates", "emitted_types", "imports", "sent_webhooks"},
    "operator": {"dedup", "duplicates", "emitted_types", "imports", "sent_webhooks"},
}
SECRET = {"endpoints": {"secrets"}}
CONTENT = "canary-content"
HISTORIES = ("events", "commands", "events_history", "commands_history")
# Ways to read contents.
WAYS = (
    "SELECT payload FROM inboxd.{table}",
    "SELECT * FROM inboxd.{table}",
    "SELECT t FROM inboxd.{table} t",
    "SELECT to_jsonb(t) FROM inboxd.{table} t",
    "SELECT t::text FROM inboxd.{table} t",
    "SELECT errors FROM inboxd.{table}",
    "SELECT id FROM inboxd.{table} WHERE payload ->> 'mail' LIKE 'c%'",
    "SELECT id FROM inboxd.{table} ORDER BY payload",
    "SELECT count(payload) FROM inboxd.{table}",
    "SELECT id FROM inboxd.{table} GROUP BY id, payload",
    "SELECT row_number() OVER (ORDER BY payload) FROM inboxd.{table}",
    "SELECT (SELECT payload) FROM inboxd.{table}",
    "SELECT x.payload FROM inboxd.{table} x JOIN inboxd.{table} y USING (id)",
    "SELECT id FROM inboxd.{table} x NATURAL JOIN inboxd.{table} y",
    "COPY inboxd.{table} TO STDOUT",
    "COPY inboxd.{table} (payload) TO STDOUT",
    "COPY (SELECT payload FROM inboxd.{table}) TO STDOUT",
    "TABLE inboxd.{table}",
    "EXPLAIN ANALYZE SELECT payload FROM inboxd.{table}",
    "EXPLAIN SELECT payload FROM inboxd.{table}",
    "PREPARE {table} AS SELECT payload FROM inboxd.{table}; EXECUTE {table}",
    "DECLARE stolen CURSOR WITH HOLD FOR SELECT payload FROM inboxd.{table}",
    "CREATE TEMP TABLE stolen AS SELECT payload FROM inboxd.{table}",
    "CREATE TEMP VIEW stolen AS SELECT payload FROM inboxd.{table}; SELECT * FROM stolen",
    "CREATE TEMP TABLE stolen (); ALTER TABLE stolen INHERIT inboxd.{table}",
    "UPDATE inboxd.{table} SET status = status RETURNING payload",
    "UPDATE inboxd.{table} SET status = payload::text",
    "DELETE FROM inboxd.{table} RETURNING payload",
    "INSERT INTO inboxd.{table} DEFAULT VALUES RETURNING payload",
    "MERGE INTO inboxd.{table} t USING (VALUES (1)) v(i) ON id = i WHEN MATCHED THEN DELETE",
    "SELECT id FROM inboxd.{table} FOR UPDATE",
    "LOCK TABLE inboxd.{table} IN EXCLUSIVE MODE",
    "TRUNCATE inboxd.{table}",
    "CREATE TRIGGER spy AFTER DELETE ON inboxd.{table} EXECUTE FUNCTION tsvector_update_trigger()",
    "CREATE RULE spy AS ON UPDATE TO inboxd.{table} DO ALSO SELECT 1",
    "CREATE INDEX spy ON inboxd.{table} ((payload ->> 'mail'))",
    "CREATE STATISTICS inboxd.spy ON (payload ->> 'mail'), id FROM inboxd.{table}",
    "ALTER TABLE inboxd.{table} ALTER payload SET STATISTICS 1000",
    "GRANT SELECT ON inboxd.{table} TO PUBLIC",
    "DO $$ BEGIN PERFORM payload FROM inboxd.{table}; END $$",
)
NOT_FOR_VIEWERS = (
    *("SELECT * FROM inboxd.bodies", "SELECT payload FROM inboxd.bodies"),
    *("SELECT error FROM inboxd.story", "SELECT * FROM inboxd.story"),
    *("SELECT s FROM inboxd.story s", "SELECT events FROM inboxd.held_receipts"),
    *("SELECT body FROM inboxd.receipts", "SELECT headers FROM inboxd.kept_receipts"),
    *("SELECT secrets FROM inboxd.endpoints", "SELECT url FROM inboxd.endpoints"),
    *("SELECT payload FROM inboxd.schedules", "SELECT reason FROM inboxd.breakers"),
    *("SELECT trouble FROM inboxd.receivers", "SELECT trouble FROM inboxd.message_readers"),
    *("SELECT * FROM inboxd.dedup", "SELECT * FROM inboxd.imports"),
    "CREATE TABLE inboxd.mine ()",
    "CREATE FUNCTION inboxd.mine() RETURNS void LANGUAGE sql AS ''",
    "INSERT INTO inboxd.audit (actor, action, target, count) VALUES ('a', 'b', 'c', 1)",
    "DELETE FROM inboxd.controls",
    "UPDATE inboxd.workers SET state = 'dead'",
    "SELECT nextval('inboxd.events_id_seq')",
    "SELECT setval('inboxd.events_flag', 0)",
    "LISTEN a; SELECT pg_read_file('PG_VERSION')",
)
NOT_FOR_OPERATORS = (
    "UPDATE inboxd.events SET payload = '{}'",
    "UPDATE inboxd.commands SET result = '{}'",
    "UPDATE inboxd.commands SET type = 'x'",
    "UPDATE inboxd.commands SET queue = 'x'",
    "UPDATE inboxd.events_history SET status = 'succeeded'",
    "UPDATE inboxd.bodies SET payload = '{}'",
    "INSERT INTO inboxd.events (type) VALUES ('a.b')",
    "INSERT INTO inboxd.commands (type, payload) VALUES ('a.b', '{}')",
    "INSERT INTO inboxd.commands_history SELECT * FROM inboxd.commands_history",
    "DELETE FROM inboxd.commands",
    "DELETE FROM inboxd.events_history",
    "DELETE FROM inboxd.audit",
    "UPDATE inboxd.audit SET actor = 'nobody'",
    "SELECT secrets FROM inboxd.endpoints",
    "UPDATE inboxd.endpoints SET url = 'https://evil'",
    "UPDATE inboxd.endpoints SET secrets = '[\"known\"]'",
    "SELECT inboxd.emit_event('a.b', '{}')",
    "SELECT inboxd.send_command('a.b', '{}')",
    "SELECT inboxd.settle_command(1, 1, gen_random_uuid(), 1)",
    "SELECT inboxd.drop_partition('events_history_20260101')",
    "SELECT inboxd.make_partitions(1)",
    "CREATE TABLE inboxd.mine ()",
    "DROP TABLE inboxd.events",
    "ALTER TABLE inboxd.events DISABLE TRIGGER ALL",
    "CREATE ROLE mine",
    "GRANT inboxd_worker TO CURRENT_USER",
    "SET session_replication_role = replica",
)


@pytest.fixture(params=["viewer", "operator"])
def role(request: pytest.FixtureRequest) -> str:
    """The role whose privileges are tested."""
    return str(request.param)


@pytest.fixture
async def filled(database: Database) -> Database:
    """A database with contents in every place, settled or not, and with statistics of them."""
    await database.execute(
        f"""
        select inboxd.emit_event('a.b', jsonb_build_object('mail', '{CONTENT}'),
                                 headers => '{{"mail": "{CONTENT}"}}') from generate_series(1, 50);
        select inboxd.emit_event('a.b', jsonb_build_object('mail', repeat('{CONTENT}', 200)));
        select inboxd.send_command('a.b', jsonb_build_object('mail', '{CONTENT}'))
          from generate_series(1, 50);
        update inboxd.commands set status = 'failed', errors = '[{{"error": "{CONTENT}"}}]'
         where id > 40;
        update inboxd.events set status = 'failed', errors = '[{{"error": "{CONTENT}"}}]'
         where id > 40;
        select inboxd.put_away(array(select id from inboxd.commands where id > 45), 'dismissed');
        select inboxd.dismiss_events(array(select id from inboxd.events where id > 45));
        insert into inboxd.receivers (id, name, host, pid, version, trouble)
        values (gen_random_uuid(), 'door', 'h', 1, '1', '{CONTENT}');
        insert into inboxd.message_readers (source, worker_id, broker, state, trouble)
        values ('bank', gen_random_uuid(), 'kafka', 'lost', '{CONTENT}');
        insert into inboxd.endpoints (name, url, types, secrets)
        values ('acme', 'https://a/{CONTENT}', '{{*}}', '["{CONTENT}"]');
        analyze;
        """
    )
    return database


@pytest.fixture
async def viewer(filled: Database) -> AsyncIterator[asyncpg.Connection]:
    """A connection with a viewer's privileges."""
    async with filled.connect() as connection:
        await connection.execute("SET ROLE inboxd_viewer")
        yield connection


async def test_every_column_is_granted_or_withheld(database: Database, role: str) -> None:
    columns = await database.fetch(
        "select c.relname, c.relkind::text as kind, a.attname, a.attnum, c.oid,"
        "       has_column_privilege($1, c.oid, a.attnum, 'select') as read"
        "  from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'inboxd'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')"
        "   and not c.relispartition and a.attnum > 0 and not a.attisdropped",
        f"inboxd_{role}",
    )
    assert len(columns) > 300
    withheld = WITHHELD if role == "viewer" else SECRET
    for row in columns:
        name, column = row["relname"], row["attname"]
        expected = name not in UNREAD[role] and column not in withheld.get(name, ())
        assert row["read"] is expected, (
            f"{name}.{column}: grant it to inboxd_{role} in the migration that adds it and in "
            "check_readers.sql, or withhold it here"
        )


async def test_no_partition_of_today_or_later_is_granted(database: Database, role: str) -> None:
    await database.execute("select inboxd.make_partitions(40)")
    parts = await database.fetch(
        "select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relispartition and c.relkind = 'r' and c.relnamespace = 'inboxd'::regnamespace"
        "   and has_column_privilege($1, c.oid, a.attnum, 'select')",
        f"inboxd_{role}",
    )
    assert parts == []


async def test_a_new_column_is_denied_until_it_is_listed(database: Database, role: str) -> None:
    await database.execute(
        "alter table inboxd.workers add column token text;"
        "alter table inboxd.events add column x text"
    )
    async with database.connect() as connection:
        await connection.execute(f"SET ROLE inboxd_{role}")
        for statement in ("select token from inboxd.workers", "select x from inboxd.events"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(statement)


async def test_viewer_cannot_read_contents(viewer: asyncpg.Connection) -> None:
    tried = [way.format(table=table) for table in HISTORIES for way in WAYS]
    assert await _allowed(viewer, tried) == []


async def test_viewer_can_do_nothing_else(viewer: asyncpg.Connection) -> None:
    assert await _allowed(viewer, NOT_FOR_VIEWERS) == []


async def _allowed(connection: asyncpg.Connection, statements: Sequence[str]) -> list[str]:
    """The statements that were not refused for a missing privilege, each in its own transaction."""
    allowed = []
    for statement in statements:
        tried = connection.transaction()
        await tried.start()
        try:
            await connection.execute(statement)
        except (asyncpg.InsufficientPrivilegeError, asyncpg.WrongObjectTypeError):
            pass  # WrongObjectTypeError: not possible on a partitioned table for any role
        else:
            allowed.append(statement)
        finally:
            await tried.rollback()
    return allowed


async def test_catalogue_views_show_no_contents(
    filled: Database, viewer: asyncpg.Connection
) -> None:
    """Statistics hold the most common values of each column, also of partitions and indexes."""
    looked = 0
    for (view,) in await filled.fetch(
        "select oid::regclass::text from pg_class where relnamespace = 'pg_catalog'::regnamespace"
        " and relkind = 'v' order by 1"
    ):
        try:
            rows: list[Any] = await viewer.fetch(f"SELECT v::text FROM pg_catalog.{view} v")
        except asyncpg.PostgresError:
            continue  # a view of another role, or of a feature that is not set up here
        looked += 1
        assert not [row for row in rows if CONTENT in row[0] and "SELECT" not in row[0]], view
    assert looked > 50
    stolen = await filled.fetchval(
        "select count(*) from pg_stats where most_common_vals::text like '%' || $1 || '%'",
        CONTENT,
    )
    assert stolen > 0, "the owner sees contents in the statistics"


async def test_role_may_call_only_its_functions(database: Database, role: str) -> None:
    rows = await database.fetch(
        "select proname, has_function_privilege($1, oid, 'execute') as may from pg_proc"
        " where pronamespace = 'inboxd'::regnamespace",
        f"inboxd_{role}",
    )
    named = {each.name for each in migrations.functions() if role in each.roles}
    assert {row["proname"] for row in rows if row["may"]} == named
    if role == "viewer":
        told = {"is_unhandled", "number_given", "receipt_time"}
        assert named == told, "functions that return no contents of rows"


async def test_granted_views_and_columns_return_no_contents(
    filled: Database, viewer: asyncpg.Connection
) -> None:
    views = await filled.fetch(
        "select c.relname, string_agg(quote_ident(a.attname), ', ') as columns"
        "  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
        " where c.relnamespace = 'inboxd'::regnamespace and c.relkind in ('r', 'p', 'v')"
        "   and not c.relispartition"
        "   and has_column_privilege('inboxd_viewer', c.oid, a.attnum, 'select')"
        " group by c.relname"
    )
    assert len(views) > 30
    for view, columns in views:
        rows = await viewer.fetch(f"SELECT {columns} FROM inboxd.{view}")
        assert CONTENT not in repr([tuple(row) for row in rows]), view


async def test_an_operator_writes_no_contents_and_reads_no_secret(filled: Database) -> None:
    async with filled.connect() as connection:
        await connection.execute("SET ROLE inboxd_operator")
        assert await _allowed(connection, NOT_FOR_OPERATORS) == []


async def test_functions_of_operators_have_their_own_search_path(
    filled: Database,
) -> None:
    """A function with the owner's rights must not find a caller's objects by their names."""
    rows = await filled.fetch(
        "select proname, proconfig from pg_proc where pronamespace = 'inboxd'::regnamespace"
        "   and prosecdef and has_function_privilege('inboxd_operator', oid, 'execute')"
    )
    assert len(rows) >= 6
    for row in rows:
        assert "search_path=pg_catalog, pg_temp" in row["proconfig"], row["proname"]


async def test_grants_of_readers_match_the_lists_of_the_check(
    database: Database, role: str
) -> None:
    """The privileges of the migration, and those that `inboxd check` asks for."""
    name = f"{database.name}_alone"
    sql = Statements("inboxd")
    async with database.connect() as connection:
        await connection.execute(f"CREATE ROLE {name}")
        try:
            session = Session(connection, sql)
            whose: Any = role
            assert await listing.missing_privileges(session, f"inboxd_{role}", whose) == []
            assert await listing.missing_privileges(session, "inboxd_worker", whose) == []
            for row in await listing.missing_privileges(session, name, whose):
                await connection.execute(row["remedy"])
            assert await _rights(connection, name) == await _rights(connection, f"inboxd_{role}")
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.mark.parametrize("whose", ["producer", "receiver"])
async def test_grants_of_writers_match_the_lists_of_the_check(
    database: Database, whose: Any
) -> None:
    name = f"{database.name}_alone"
    async with database.connect() as connection:
        await connection.execute(f"CREATE ROLE {name}")
        try:
            session = Session(connection, Statements("inboxd"))
            assert await listing.missing_privileges(session, f"inboxd_{whose}", whose) == []
            for row in await listing.missing_privileges(session, name, whose):
                await connection.execute(row["remedy"])
            assert await _rights(connection, name) == await _rights(connection, f"inboxd_{whose}")
        finally:
            await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def _rights(connection: asyncpg.Connection, role: str) -> set[tuple[str, ...]]:
    rows = await connection.fetch(
        "SELECT privilege_type, table_name, column_name FROM information_schema.column_privileges"
        " WHERE grantee = $1 AND table_schema = 'inboxd' UNION ALL "
        "SELECT privilege_type, table_name, '' FROM information_schema.table_privileges"
        " WHERE grantee = $1 AND table_schema = 'inboxd' UNION ALL "
        "SELECT privilege_type, routine_name, '' FROM information_schema.routine_privileges"
        " WHERE grantee = $1 AND routine_schema = 'inboxd'",
        role,
    )
    return {tuple(row) for row in rows}


def test_statements_for_viewers_name_no_contents() -> None:
    """A column that is not granted may not be named, even where its value is not returned."""
    plain, shown = Statements("inboxd"), Statements("inboxd", {"content", "secret"})
    assert not [
        name for name in plain if re.search(r"\{(content|secret) ", plain[name] + shown[name])
    ]
    assert "errors" in plain["found_events"]
    assert "errors" not in shown["found_events"]
    assert "left(NULL::text, 200) AS error" in shown["found_events"]
    lists = [name for name in plain if name.startswith(("find_events", "find_commands"))]
    assert lists
    assert all("inboxd.bodies" in plain[name] for name in lists)
    assert not [name for name in lists if "inboxd.bodies" in shown[name]]
