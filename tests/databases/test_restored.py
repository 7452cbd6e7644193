"""A restored dump: rows go on, and roles and privileges come back, on any server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import psycopg
import pytest

from inboxd.embedded import Server
from tests.cli.conftest import Cli, Result
from tests.cli.troubles import Report
from tests.daemon.inbox import Inbox
from tests.databases.conftest import At, Dumps, Login, as_login, name_of
from tests.support import Database, StartWorker, create, drop, temporary_server
from tests.support.verdicts import safety

Sql = Callable[..., list[asyncpg.Record]]

# All privileges of roles other than the owner.
_RIGHTS = """
with granted(what, acl, owner) as (
    select 'schema', nspacl, nspowner from pg_namespace where nspname = 'inboxd'
    union all select 'relation ' || relname, relacl, relowner from pg_class
     where relnamespace = 'inboxd'::regnamespace and relkind in ('r', 'p', 'v', 'S')
    union all select 'column ' || c.relname || '.' || a.attname, a.attacl, c.relowner
      from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = 'inboxd'::regnamespace and a.attacl is not null
    union all select 'function ' || p.oid::regprocedure::text,
                     coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner
      from pg_proc p where p.pronamespace = 'inboxd'::regnamespace
)
select what, coalesce(r.rolname, 'PUBLIC') as grantee, each.privilege_type as privilege
  from granted cross join lateral aclexplode(acl) as each
  left join pg_roles r on r.oid = each.grantee
 where each.grantee <> owner
"""
_FILLED = """
insert into ledger (note) values ('kept');
select inboxd.emit_event('test.ledger', '{"n": 1}', dedup_key => 'once'),
       inboxd.send_command('test.ledger', '{"n": 2}', command_id => inboxd.new_uuid());
insert into inboxd.workers
       (id, name, host, pid, version, events, commands, queues, declares, beat_at)
values ('00000000-0000-0000-0000-000000000001', 'gone', 'h', 1, '0', '{}', '{}', '{}', '',
        now() - interval '1 hour');
insert into inboxd.commands (type, queue, payload, status, worker_id, started_at)
values ('test.ledger', 'default', '{"n": 3}', 'running',
        '00000000-0000-0000-0000-000000000001', now());
insert into inboxd.endpoints (name, url, types, secrets)
values ('acme', 'https://acme.example', '{*}', '[{"secret": "s"}]');
"""


@pytest.fixture
def elsewhere(programs: Path) -> Iterator[Server]:
    """A server of the test's own, without the roles."""
    with temporary_server(binaries=programs) as server:
        yield server


@pytest.fixture
def copy(server: Server) -> Iterator[Database]:
    """An empty database on the server of the test's database."""
    fresh = create(server)
    yield fresh
    drop(server, fresh)


def _rights(database: Database) -> set[tuple[str, ...]]:
    return {tuple(row) for row in anyio.run(database.fetch, _RIGHTS)}


def _everybodys(database: Database) -> int:
    return sum(grantee == "PUBLIC" for _, grantee, _ in _rights(database))


def test_copy_on_the_same_server_equals_the_original(
    inbox: Inbox, copy: Database, dumps: Dumps, at: At
) -> None:
    anyio.run(inbox.database.execute, _FILLED)
    dumps.make(inbox.database)
    assert dumps.restore(copy) == 0
    report = Report(at(copy.dsn))
    for subject in ("drift", "rights", "sequences", "publications"):
        report.one(subject, "ok")
    with safety():
        assert _rights(copy) == _rights(inbox.database)


@pytest.mark.anyio
async def test_worker_handles_the_rows_of_a_copy(
    inbox: Inbox, copy: Database, dumps: Dumps, start_worker: StartWorker
) -> None:
    await inbox.database.execute(_FILLED)
    dumps.make(inbox.database)
    assert dumps.restore(copy) == 0
    worker = await start_worker({"database": {"dsn": copy.dsn}})
    events = await copy.fetch("select id from inboxd.events")
    commands = await copy.fetch("select id from inboxd.commands")
    await Inbox(copy).succeeded("event", *(row["id"] for row in events))
    await Inbox(copy).succeeded("command", *(row["id"] for row in commands))
    again = "select inboxd.emit_event('test.ledger', '{\"n\": 1}', dedup_key => 'once')"
    await copy.execute(again)
    assert await worker.stop() == 0
    with safety():
        notes = await copy.fetch("select note from ledger order by 1")
        assert [row["note"] for row in notes] == ["1", "2", "3", "kept"]
        assert await copy.fetchval("select count(*) from inboxd.events") == 0


def test_roles_and_privileges_come_back_on_a_server_without_them(
    database: Database, elsewhere: Server, dumps: Dumps, at: At
) -> None:
    dumps.make(database)
    there = create(elsewhere)
    assert dumps.restore(there) == 1, "pg_restore skips grants to missing roles"
    assert _everybodys(there) > 0
    _put_back(there, database, at)


def test_privileges_come_back_after_a_restore_without_them(
    database: Database, copy: Database, dumps: Dumps, at: At, login: Login
) -> None:
    dumps.make(database)
    assert dumps.restore(copy, "--no-owner", "--no-privileges") == 0
    assert _everybodys(copy) > 90
    dsn = as_login(copy.dsn, name_of(login()))
    enter = "grant usage on schema inboxd to public"
    anyio.run(copy.execute, enter)
    with psycopg.connect(dsn, autocommit=True) as stranger:
        stranger.execute("select * from inboxd.fold_batch(1)")
        anyio.run(copy.execute, enter.replace("grant", "revoke").replace(" to ", " from "))
        _put_back(copy, database, at)
        anyio.run(copy.execute, enter)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="fold_batch"):
            stranger.execute("select * from inboxd.fold_batch(1)")


def _put_back(restored: Database, original: Database, at: At) -> None:
    """Check the report on a restored database, its remedy, and that privileges are equal then."""
    cli = at(restored.dsn)
    report = Report(cli)
    report.one("rights", "critical", "every role may call", "inboxd migrate --grants")
    report.one("drift", "ok")
    checked = cli("check", "--json")
    assert checked.code == 1
    assert [each["subject"] for each in checked.json["checks"] if each["verdict"] == "fail"] == [
        "rights"
    ]
    assert "pending: nothing" in cli("migrate").out, "missing privileges are no pending migration"
    done = cli("migrate", "--grants", "--json")
    assert done.json["roles_missing"] == []
    assert "as the migrations define them" in cli("migrate", "--grants").out
    Report(cli).one("rights", "ok")
    assert cli("check").code == 0
    with safety():
        assert _rights(restored) == _rights(original)


def test_lost_privilege_is_named_and_granted_again(
    database: Database, cli: Cli, sql: Sql, login: Login, at: At
) -> None:
    """One privilege after the other is revoked, as by an administrator."""
    before = _rights(database)
    for lost in (
        "usage on schema inboxd from inboxd_producer",
        "select on inboxd.controls from inboxd_receiver",
        "update (status) on inboxd.events from inboxd_operator",
        "execute on function inboxd.receipt_time from inboxd_viewer",
        "insert on inboxd.leases from inboxd_worker",
    ):
        sql(f"revoke {lost}")
        role = lost.rpartition(" ")[2]
        Report(cli).one("rights", "warning", f"role '{role}' lacks 1 privilege", "--grants")
        checks = cli("check", "--json")
        assert checked(checks, "rights")["verdict"] == "warn"
        assert cli("migrate", "--grants").code == 0
        Report(cli).one("rights", "ok")
    with safety():
        assert _rights(database) == before
    member = at(login("inboxd_worker"))
    sql("drop owned by inboxd_worker")
    found = checked(member("check", "--json"), "privileges")
    assert found["verdict"] == "fail"
    assert "the role 'inboxd_worker' also lacks some" in found["found"]
    assert "inboxd migrate --grants; then GRANT inboxd_worker TO " in found["remedy"]


def checked(result: Result, subject: str) -> dict[str, Any]:
    """The only line of `check` on a subject."""
    (line,) = [each for each in result.json["checks"] if each["subject"] == subject]
    return dict(line)


def test_only_the_owner_grants_privileges_again(at: At, login: Login) -> None:
    result = at(login("inboxd_worker"))("migrate", "--grants", "--yes")
    assert result.code == 69
    assert "only the owner of an object can grant rights on it; connect as 'postgres'" in result.err
    for wrong in (("--check",), ("--to", "1")):
        assert at("postgresql://nowhere")("migrate", "--grants", *wrong).code == 2


def test_owner_without_the_right_to_create_roles_revokes_open_privileges(
    elsewhere: Server, database: Database, dumps: Dumps, at: At
) -> None:
    dumps.make(database)
    there = create(elsewhere)
    grant = f"grant create on database {there.name} to shop"
    anyio.run(there.execute, f"create role shop login; {grant}")
    owners = as_login(there.dsn, "shop")
    dumps.restore(Database(there.name, owners), "--no-owner", "--no-privileges")
    cli = at(owners)
    assert cli("migrate", "--grants", "--json").json["roles_missing"] == [
        f"inboxd_{each}" for each in ("operator", "producer", "receiver", "viewer", "worker")
    ]
    assert _everybodys(there) == 0
    assert "could not be created: inboxd_operator" in cli("migrate", "--grants").out
    Report(cli).one("rights", "ok")
    assert cli("check").code == 0
