"""Logins of one database cannot read, take or stop each other's data, objects and transactions."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.errors import DatabaseError
from inboxd.model.horizon import Horizon
from inboxd.settings import Database as Settings
from inboxd.store import lines
from inboxd.store.migrations import migrate
from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.databases.conftest import At, Login, as_login, name_of
from tests.support import Database, create, drop
from tests.support.receipts import receipt, receive
from tests.support.rows import daemon_session

_RESULT = "select status, result, error from inboxd.command_result($1)"
# The SQLSTATE of "there is no command or batch".
_UNKNOWN = "IB004"


def _of(database: Database, login: str) -> Database:
    return Database(database.name, login)


@pytest.fixture
def alice(database: Database, login: Login) -> Database:
    """The database with the login of a producer."""
    return _of(database, login("inboxd_producer"))


@pytest.fixture
def mallory(database: Database, login: Login) -> Database:
    """The database with the login of another producer."""
    return _of(database, login("inboxd_producer"))


# ------------------------------------------------------------------------------------- results


async def _settle(database: Database, command: UUID) -> None:
    """Settle a command as a worker does."""
    await database.fetch(
        "with taken as (update inboxd.commands set status = 'running', fence = 1,"
        " worker_id = gen_random_uuid() where command_id = $1 returning id, worker_id)"
        " select id, worker_id from taken",
        command,
    )
    await database.fetch(
        'select inboxd.settle_command(id, fence, worker_id, 0.1, \'{"iban": "hers"}\')'
        " from inboxd.commands where command_id = $1",
        command,
    )


@pytest.mark.anyio
async def test_results_are_for_the_sender_of_the_command(
    database: Database, alice: Database, mallory: Database, login: Login
) -> None:
    """Ids may be listed, since inserts return rows; an id alone must not open a result."""
    friend = _of(database, login())
    await database.execute(f"grant {name_of(alice.dsn)} to {name_of(friend.dsn)}")
    await database.execute(f"grant inboxd_producer to {name_of(friend.dsn)}")
    worker = _of(database, login("inboxd_worker"))
    plain = "insert into inboxd.commands (type) values ('a.b') returning command_id"
    for send in ("select new_command_id from inboxd.send_command('a.b')", plain):
        command = await alice.fetchval(send)
        assert command in {
            row[0] for row in await mallory.fetch("select command_id from inboxd.commands")
        }
        for done in (False, True):
            if done:
                await _settle(database, command)
            for reader in (alice, friend, worker, database):
                (row,) = await reader.fetch(_RESULT, command)
                assert row["status"] == ("succeeded" if done else "pending")
                assert ("hers" in (row["result"] or "")) is done
            assert await mallory.fetch(_RESULT, command) == []
    settled = "update inboxd.commands_history set sender = null returning command_id"
    for (command,) in await database.fetch(settled):
        assert len(await mallory.fetch(_RESULT, command)) == 1, "rows without a sender are open"
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await mallory.execute("insert into inboxd.commands (type, sender) values ('a.b', 'x')")


@pytest.mark.anyio
async def test_replayed_command_belongs_to_its_sender(
    database: Database, alice: Database, mallory: Database
) -> None:
    command = await alice.fetchval("select new_command_id from inboxd.send_command('a.b')")
    await database.execute("update inboxd.commands set status = 'failed', attempts = 1")
    await database.fetch(
        "select inboxd.replay_commands(array(select id from inboxd.commands), 'x', null)"
    )
    again = await database.fetchval("select command_id from inboxd.commands")
    assert again != command
    for asked in (command, again):
        assert [row["status"] for row in await alice.fetch(_RESULT, asked)] == ["pending"]
        assert await mallory.fetch(_RESULT, asked) == []


@pytest.mark.anyio
async def test_login_cannot_wait_for_or_change_work_of_others(
    database: Database, alice: Database, mallory: Database
) -> None:
    """A waiting command would lock the row, and hold its worker's place."""
    command = await alice.fetchval("select new_command_id from inboxd.send_command('a.b')")
    batch = await alice.fetchval("select new_batch_id from inboxd.open_batch('hers')")
    tried = (
        ('select inboxd.send_after($1, \'{"type": "a.c"}\')', command),
        ('select inboxd.send_after($1, \'{"type": "a.c"}\')', batch),
        ('select inboxd.add_to_batch($1, \'[{"type": "a.c"}]\')', batch),
        ("select inboxd.close_batch($1)", batch),
    )
    for statement, of in tried:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await mallory.fetch(statement, of)
        assert refused.value.sqlstate == _UNKNOWN, statement
    for statement, of in tried:
        assert len(await alice.fetch(statement, of)) == 1
    with pytest.raises(asyncpg.InvalidParameterValueError, match="empty"):
        await alice.fetch("select inboxd.send_after($1, '[]')", command)


# ------------------------------------------------------------------------------------- sources


@pytest.mark.anyio
async def test_producer_cannot_write_events_of_a_received_source(
    database: Database, mallory: Database, login: Login
) -> None:
    """Otherwise the real webhook is answered as a repetition, and its body is not kept."""
    receiver = _of(database, login("inboxd_receiver"))
    begins = (
        "insert into inboxd.receivers (id, name, host, pid, version, sources)"
        " values ($1, 'door', 'h', 1, '1', $2::text[])"
    )
    door = uuid4()
    await receiver.fetch(begins, door, ["std"])
    await receiver.fetch(
        "update inboxd.receivers set sources = $2::text[] where id = $1", door, ["psp"]
    )
    await receiver.fetch("delete from inboxd.receivers")
    await database.execute(
        "insert into inboxd.stream_positions (source, stream) values ('bank', 's')"
    )
    ways = (
        "select inboxd.emit_event('a.b', source => $1, dedup_key => 'next')",
        "insert into inboxd.events (type, source, dedup_key) values ('a.b', $1::text, 'next')",
        (
            "select inboxd.emit_events(jsonb_build_array(jsonb_build_object("
            "'type', 'a.b', 'source', $1::text, 'dedup_key', 'next')))"
        ),
    )
    for way in ways:
        for source in ("std", "psp", "bank"):
            with pytest.raises(
                asyncpg.InsufficientPrivilegeError, match="is received by receivers"
            ):
                await mallory.fetch(way, source)
        await mallory.fetch(way, "shop")
    worker = _of(database, login("inboxd_worker"))
    await worker.fetch(ways[0], "std")
    assert await database.fetchval("select count(*) from inboxd.dedup where source = 'std'") == 1


@pytest.mark.anyio
async def test_an_operator_releases_what_a_paused_source_received(
    database: Database, login: Login
) -> None:
    await database.execute(
        "insert into inboxd.controls (kind, name, actor, mode)"
        " values ('source', 'psp', 'a', 'hold');"
        "insert into inboxd.received_sources (source) values ('psp')"
    )
    await receive(database, receipt())
    await database.execute("delete from inboxd.controls")
    operator = _of(database, login("inboxd_operator"))
    rows = await operator.fetch("select released from inboxd.release_receipts('psp', 0, 10)")
    assert [row["released"] for row in rows] == [1]
    assert await database.fetchval("select count(*) from inboxd.events where source = 'psp'") == 1


@pytest.mark.anyio
async def test_rights_that_a_login_has_by_set_role_count(database: Database, login: Login) -> None:
    """`ALTER ROLE app SET role` gives them to a login that does not inherit."""
    await database.execute("insert into inboxd.received_sources (source) values ('psp')")
    given = login("inboxd_worker")
    await database.execute(f"alter role {name_of(given)} noinherit")
    emit = "select inboxd.emit_event('a.b', source => 'psp')"
    async with _of(database, given).connect() as connection:
        await connection.execute("set role inboxd_worker")
        await connection.fetch(emit)
    assert await database.fetchval("select count(*) from inboxd.events") == 1


# ------------------------------------------------------------------------------------- topics


@asynccontextmanager
async def _open(database: Database, *statements: str) -> AsyncIterator[None]:
    """An idle transaction that has run these statements."""
    async with database.connect() as connection, connection.transaction():
        for statement in statements:
            await connection.execute(statement)
        yield


async def _bound(database: Database, topic: str, bucket: int) -> tuple[int, int]:
    """The id up to which a new worker takes events of a topic's bucket, and the highest id."""
    horizon = Horizon()
    async with daemon_session(database) as session:
        reading = await lines.read_horizon(session)
    assert horizon.take(reading)
    return horizon.bound(bucket, topic), reading.newest


@pytest.mark.anyio
async def test_login_holds_up_only_topics_into_which_it_writes(
    database: Database, alice: Database, mallory: Database, login: Login
) -> None:
    """Locks without events, and events of another topic, must not stop a sequential topic."""
    stranger = _of(database, login())
    await database.execute(
        "insert into inboxd.topics (name, mode, source)"
        " values ('hers', 'sequential', 'test'), ('theirs', 'sequential', 'test')"
    )
    bucket = await database.fetchval("select inboxd.bucket_of('hers', 'k')")
    key = await database.fetchval(
        "select min(n)::text from generate_series(1, 10000) n"
        " where inboxd.bucket_of('theirs', n::text) = $1",
        bucket,
    )
    other = await database.fetchval(
        "select min(n)::text from generate_series(1, 10000) n"
        " where inboxd.bucket_of('undeclared', n::text) = $1",
        bucket,
    )
    into = (
        "insert into inboxd.events (type, topic, mode, ordering_key) values ('a.b', '{}', {}, '{}')"
    )
    hers, theirs = into.format("hers", "null", "k"), into.format("theirs", "null", key)
    unknown = into.format("undeclared", "'sequential'", other)
    of_buckets = "select pg_advisory_xact_lock_shared(hashtext('inboxd.order'), n)"
    of_topic = (
        "select pg_advisory_xact_lock_shared(hashtext('inboxd.order.topics'), hashtext('hers'))"
    )
    cases: dict[str, tuple[Database, Sequence[str], bool]] = {
        "locks, and no events": (
            stranger,
            (f"{of_buckets} from generate_series(0, 63) n", of_topic),
            False,
        ),
        "of another topic": (mallory, (theirs,), False),
        "of hers": (mallory, (theirs, hers), True),
        "of a topic whose name is not known": (mallory, (theirs, unknown), True),
    }
    for what, (who, statements, holds) in cases.items():
        async with _open(who, *statements):
            id_ = await alice.fetchval(f"{hers} returning id")
            bound, newest = await _bound(database, "hers", bucket)
            assert (bound < newest) is holds, what
            assert await _writers(database, id_) == holds, what
            if theirs in statements:
                bound, newest = await _bound(database, "theirs", bucket)
                assert bound < newest, "events that may still commit are not waited for"
    bound, newest = await _bound(database, "theirs", bucket)
    assert bound == newest


def test_producers_whose_transactions_may_idle_without_an_end_are_named(
    database: Database, login: Login, cli: Cli, at: At
) -> None:
    limit = "idle_in_transaction_session_timeout"
    producer, viewer = name_of(login("inboxd_producer")), login("inboxd_viewer")
    told = Report(at(viewer)).one("producers", "notice", producer)
    assert "do nothing if the server's settings have a limit" in told["remedy"]

    at(database.dsn)
    told = Report(cli).one("producers", "notice", producer)
    assert told["remedy"] == f"run: ALTER ROLE {producer} SET {limit} = '1min';", (
        "the server's files are readable"
    )
    of_login = f"alter role {producer} in database {database.name}"
    for statement, is_named in (
        (f"alter system set {limit} = '1h'", False),
        (f"alter system reset {limit}", True),
        (f"alter database {database.name} set {limit} = '1min'", False),
        (f"alter role {producer} set {limit} = 0", True),
        (f"{of_login} set {limit} = '5s'", False),
    ):
        anyio.run(database.execute, statement)
        named = [each["verdict"] for each in Report(cli).of("producers")]
        assert named == ["notice"] * is_named, statement


async def _writers(database: Database, id_: int) -> int:
    """The number of transactions that an event is said to wait for."""
    async with daemon_session(database) as session:
        found: dict[str, Any] = json.loads(await session.fetchval("explain_event", id_, 100))
    return int(found["writers"])


# ------------------------------------------------------------------------------------- owners


@pytest.mark.anyio
async def test_objects_made_by_a_stranger_are_not_taken_over(
    server: Server, template: Database, login: Login
) -> None:
    """A stranger's function in the schema could give the stranger a superuser's rights."""
    del template
    database = create(server)
    mallory = name_of(login())
    settings = Settings.model_validate({"dsn": database.dsn})
    function = "create function inboxd.new_uuid() returns uuid language sql as 'select null::uuid'"
    try:
        await database.execute(f"grant create on database {database.name} to {mallory}")
        hers = Database(database.name, as_login(database.dsn, mallory))
        await hers.execute(f"create schema inboxd; {function}")
        with pytest.raises(DatabaseError, match=f"the schema inboxd belongs to '{mallory}'"):
            await migrate(settings)
        await database.execute("alter schema inboxd owner to postgres")
        with pytest.raises(DatabaseError, match=r"the function inboxd\.new_uuid\(\) belongs to"):
            await migrate(settings)
        assert await database.fetchval("select to_regclass('inboxd.schema_migrations')") is None
        await database.execute("drop function inboxd.new_uuid()")
        await migrate(settings)
    finally:
        drop(server, database)


def test_the_doctor_names_other_owners(database: Database, login: Login, cli: Cli) -> None:
    mallory = name_of(login())
    assert Report(cli).of("owners") == []
    anyio.run(database.execute, f"alter function inboxd.bucket_of(text, text) owner to {mallory}")
    Report(cli).one("owners", "critical", "inboxd.bucket_of(text,text)", mallory)
    anyio.run(database.execute, "alter function inboxd.bucket_of(text, text) owner to postgres")


def test_roles_that_may_create_in_the_search_path_are_named(
    database: Database, login: Login, cli: Cli, at: At
) -> None:
    mallory, worker = name_of(login()), login("inboxd_worker")
    assert Report(cli).of("search path") == []

    anyio.run(database.execute, f"grant create on schema public to {mallory}, inboxd_worker")
    found = Report(cli).one("search path", "notice", "public", mallory)
    assert f"REVOKE CREATE ON SCHEMA public FROM {mallory};" in found["remedy"]
    report = Report(at(worker))
    of_worker = report.one("search path", "notice", mallory)
    assert "inboxd_worker" not in of_worker["found"], "its own rights are left out"

    anyio.run(database.execute, "grant create on schema public to public")
    for dsn in (database.dsn, worker):
        told = Report(at(dsn)).one("search path", "warning", "every role may create functions in")
        assert "REVOKE CREATE ON SCHEMA public FROM PUBLIC;" in told["remedy"]
    checks = at(worker)("check", "--json").json["checks"]
    assert [each["verdict"] for each in checks if each["subject"] == "search path"] == ["warn"] * 2

    anyio.run(database.execute, f"alter role {name_of(worker)} set search_path = pg_catalog")
    assert Report(at(worker)).of("search path") == []
    anyio.run(database.execute, "revoke create on schema public from public, inboxd_worker")


def test_schema_that_has_the_name_of_a_login_and_another_owner_is_named(
    database: Database, login: Login, cli: Cli, at: At
) -> None:
    mallory, worker = name_of(login()), login("inboxd_worker")
    schema = name_of(worker)
    anyio.run(database.execute, f"create schema {schema} authorization {mallory}")
    Report(at(worker)).one("search path", "notice", schema, mallory)


# ------------------------------------------------------------------------------------- names

# Functions that would fit the calls' arguments better than the server's, if names were unqualified.
_HOSTILE = """
create function public.{name}({types}) returns {returns} language plpgsql as
    $$ begin raise exception 'a stranger''s function was called'; end $$;
"""
_FUNCTIONS = (
    ("hashtextextended", "text, integer", "bigint"),
    ("pg_column_size", "jsonb", "integer"),
    ("pg_column_compression", "jsonb", "text"),
    ("cardinality", "text[]", "integer"),
    ("unnest", "text[]", "setof text"),
    ("starts_with", "text, varchar", "boolean"),
    ("convert_to", "text, text", "bytea"),
    ("encode", "bytea, varchar", "text"),
    ("to_timestamp", "numeric", "timestamptz"),
    ("jsonb_build_array", "jsonb", "jsonb"),
    ("jsonb_build_object", "text, timestamptz, text, text", "jsonb"),
    ("format", "text, text, uuid", "text"),
)
_OPERATORS = (
    ("*", "double precision", "integer", "double precision"),
    ("*", "numeric", "integer", "numeric"),
    ("|", "bigint", "integer", "bigint"),
    ("%", "bigint", "integer", "bigint"),
    ("/", "bigint", "numeric", "numeric"),
    ("->>", "jsonb", "jsonb", "text"),
    ("=", "text[]", "text[]", "boolean"),
)
_CALLS = {
    "beginning": "inboxd.beginning('a')",
    "body_hash": "inboxd.body_hash('a', 1, '{}')",
    "bucket_of": "inboxd.bucket_of('a', 'b')",
    "contradiction": "inboxd.contradiction('a', 1)",
    "declared_key": "inboxd.declared_key(array['a'], v_id, jsonb_object(array['a', v]))",
    "dedup_conflict": "inboxd.dedup_conflict('a', gen_random_uuid())",
    "edge_verdict": "inboxd.edge_verdict('succeeded', 'failed')",
    "headers_weight": "inboxd.headers_weight(v_json)",
    "is_erased": 'inboxd.is_erased(\'[{"error": "a"}]\')',
    "is_unhandled": "inboxd.is_unhandled('t', 'a.b')",
    "light_headers": "inboxd.light_headers(v_json)",
    "new_uuid": "inboxd.new_uuid()",
    "receipt_time": "inboxd.receipt_time(inboxd.new_uuid())",
}
# These have no ambiguous names, and run only in triggers.
_TRIGGERS = {"refuse_change", "refuse_long_key", "refuse_transition"}


@pytest.mark.anyio
async def test_inlined_functions_use_the_servers_own_functions(database: Database) -> None:
    """These functions have no search path, which would forbid inlining."""
    rows = await database.fetch(
        "select p.proname from pg_proc p where p.pronamespace = 'inboxd'::regnamespace"
        " and not exists (select from unnest(p.proconfig) c where c like 'search_path=%')"
    )
    assert {row["proname"] for row in rows} == {*_CALLS, *_TRIGGERS}, (
        "qualify the names in the new function, and add it here"
    )
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', 'batch', 'test');"
        "insert into inboxd.workers"
        " (id, name, host, pid, version, events, commands, queues, declares, subscriptions)"
        " values (gen_random_uuid(), 'w', 'h', 1, '1', '{}', '{}', '{}', '',"
        " array[E'default\\na.b'])"
    )
    for name, types, returns in _FUNCTIONS:
        await database.execute(_HOSTILE.format(name=name, types=types, returns=returns))
    for number, (name, left, right, returns) in enumerate(_OPERATORS):
        made = {"name": f"operator_{number}", "types": f"{left}, {right}", "returns": returns}
        await database.execute(
            _HOSTILE.format(**made)
            + f"create operator public.{name} (leftarg = {left}, rightarg = {right},"
            f" function = public.{made['name']})"
        )
    with pytest.raises(asyncpg.RaiseError, match="a stranger"):
        await database.fetch("select random() * 3")
    for call in _CALLS.values():
        await database.fetch(
            f"select {call} from (values ('b', jsonb '{{}}', gen_random_uuid()),"
            " (repeat('b', 300), null, null)) as t(v, v_json, v_id)"
        )
