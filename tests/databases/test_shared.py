"""A shared server: an owner with few rights, roles of another inbox, and strangers."""

from collections.abc import Iterator
from dataclasses import dataclass

import anyio
import asyncpg
import psycopg
import pytest

from inboxd.embedded import Server
from inboxd.settings import Database as Settings
from inboxd.store.migrations import functions, migrate
from tests.cli.troubles import Report
from tests.daemon.inbox import TABLES, Inbox
from tests.databases.conftest import At, as_login
from tests.support import Database, StartWorker, create, drop, eventually

# Default privileges of PUBLIC in PostgreSQL 15, revoked as careful administrators do.
_CLOSED = """
revoke all on database {name} from public;
revoke all on schema public from public;
"""
# Settings that an administrator may have chosen for other users of the database.
_HABITS = {
    "datestyle": "'SQL, DMY'",
    "intervalstyle": "sql_standard",
    "timezone": "'Asia/Kathmandu'",
    "bytea_output": "escape",
    "extra_float_digits": "-3",
    "default_transaction_isolation": "serializable",
    "transform_null_equals": "on",
    "row_security": "off",
}


@dataclass(frozen=True)
class Shared:
    """A database with an owner without superuser rights, and the URLs of its logins."""

    database: Database
    owner: str
    worker: str
    producer: str
    stranger: str


@pytest.fixture
def shared(server: Server, template: Database) -> Iterator[Shared]:
    """The roles exist already: another inbox on the server has made them."""
    del template
    database = create(server)
    name = database.name
    logins = {each: f"{name}_{each}" for each in ("owner", "worker", "producer", "stranger")}
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(_CLOSED.format(name=name).encode())
        for login in logins.values():
            connection.execute(f"create role {login} login nocreaterole".encode())
            connection.execute(f"grant connect on database {name} to {login}".encode())
        owner = logins["owner"]
        connection.execute(f"grant create on database {name} to {owner}".encode())
        for setting, value in _HABITS.items():
            connection.execute(f"alter database {name} set {setting} = {value}".encode())
    found = Shared(database, *(as_login(database.dsn, each) for each in logins.values()))
    try:
        anyio.run(migrate, Settings.model_validate({"dsn": found.owner}))
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute(TABLES)
            connection.execute(f"grant usage on schema public to {logins['worker']}".encode())
            connection.execute(f"grant all on ledger to {logins['worker']}".encode())
            for which in ("worker", "producer"):
                connection.execute(f"grant inboxd_{which} to {logins[which]}".encode())
        yield found
    finally:
        drop(server, database)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for login in logins.values():
                connection.execute(f"drop role {login}".encode())


def test_check_and_doctor_report_no_problem(shared: Shared, at: At) -> None:
    for login in (shared.owner, shared.worker):
        cli = at(login)
        assert cli("check").code == 0
        report = Report(cli)
        for subject in ("drift", "rights", "sequences", "publications", "partitions"):
            report.one(subject, "ok")
        assert report.of("row level security") == []
    cli = at(shared.owner)
    assert cli("migrate", "--grants", "--json").json["roles_missing"] == []
    Report(cli).one("rights", "ok")


@pytest.mark.anyio
async def test_worker_and_producer_work_on_a_shared_server(
    shared: Shared, start_worker: StartWorker
) -> None:
    worker = await start_worker({"database": {"dsn": shared.worker}})
    inbox = Inbox(shared.database)
    async with Database(shared.database.name, shared.producer).connect() as producer:
        await producer.fetch(
            "select inboxd.emit_event('test.ledger', '{\"n\": 1, \"sends\": 2}'),"
            """       inboxd.emit_event('batch.make', '{"members": ["ok", "sql"], "times": 1}'),"""
            "       inboxd.send_command('test.ledger', '{\"n\": 2}')"
        )
        plain = "insert into inboxd.events (type, payload) values ('test.noop', '{}')"
        await producer.execute(plain)

    async def is_settled() -> bool:
        return bool(
            await shared.database.fetchval(
                "select not exists (select from inboxd.events)"
                " and not exists (select from inboxd.commands)"
                " and (select status from inboxd.batches) = 'succeeded'"
            )
        )

    await eventually(is_settled)
    dead = "select count(*) from inboxd.events_history where status <> 'succeeded'"
    assert await inbox.database.fetchval(dead) == 0
    assert "permission denied" not in worker.output()
    assert await worker.stop() == 0


@pytest.mark.anyio
async def test_stranger_has_no_privilege(shared: Shared) -> None:
    async with Database(shared.database.name, shared.stranger).connect() as stranger:
        for statement in (
            "select inboxd.emit_event('a.a')",
            "select count(*) from inboxd.events",
            "select * from inboxd.fold_batch(1)",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await stranger.execute(statement)
        may = await stranger.fetch(
            "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = 'inboxd' and has_function_privilege(p.oid, 'execute')"
        )
        assert may == []
        there = await stranger.fetchval(
            "select count(*) from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = 'inboxd'"
        )
        assert there >= len(functions())
