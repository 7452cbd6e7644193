"""Row level security: a process that sees no rows reports it, and does not look idle."""

from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.daemon.inbox import Inbox
from tests.databases.conftest import Login, name_of
from tests.support import Database, StartWorker, eventually
from tests.support.ports import held_port
from tests.support.receiver import Receiver, port_of
from tests.support.verdicts import safety

Sql = Callable[..., list[asyncpg.Record]]

HOT = ("commands", "events")
# Policies that hide rows from the worker's role, by their names in this test.
HIDING = {
    "no policy": "",
    "a policy of some rows": "create policy p on inboxd.events using (type = 'other')",
    "a policy of others": "create policy p on inboxd.events to inboxd_producer using (true)",
    "a policy that restricts": "create policy p on inboxd.events using (true);"
    " create policy q on inboxd.events as restrictive using (type = 'other')",
    "a policy of reading": "create policy p on inboxd.events for select using (true)",
}


def _secure(*tables: str, to: str = "ENABLE") -> str:
    return ";".join(f"alter table inboxd.{each} {to} row level security" for each in tables)


@pytest.mark.anyio
async def test_worker_that_would_see_no_rows_does_not_start(
    database: Database, login: Login, start_worker: StartWorker
) -> None:
    dsn = login("inboxd_worker")
    await database.execute(_secure(*HOT))
    worker = await start_worker({"database": {"dsn": dsn}}, ready=False)
    assert await worker.wait() == 78
    hidden = "row level security hides rows of commands, events from this role"
    assert hidden in worker.output()


@pytest.mark.anyio
async def test_worker_is_not_ready_while_rows_are_hidden_from_it(
    inbox: Inbox, login: Login, start_worker: StartWorker
) -> None:
    dsn = login("inboxd_worker")
    config = {"database": {"dsn": dsn}, "maintenance": {"interval": "500ms"}}
    worker = await start_worker(config)
    for table in HOT:  # one table at a time: the worker locks several tables in its own order
        await inbox.database.execute(_secure(table))

    async def is_held() -> bool:
        status, body = await worker.get("/readyz")
        return status == 503 and "row level security hides rows of commands, events" in body

    await eventually(is_held)
    assert (await worker.get("/healthz"))[0] == 200, "a restart would not help"
    event = await inbox.write("event", "test.ledger", {"n": 1})
    command = await inbox.write("command", "test.ledger", {"n": 1})
    for table in HOT:
        await inbox.database.execute(_secure(table, to="DISABLE"))
    await worker.ready()
    await inbox.succeeded("event", event)
    await inbox.succeeded("command", command)


@pytest.mark.anyio
async def test_owner_sees_all_rows_until_security_is_forced(
    inbox: Inbox, start_worker: StartWorker, login: Login
) -> None:
    """The tests' superuser is exempt even then; a login that owns the tables is not."""
    database, dsn = inbox.database, login()
    name = name_of(dsn)
    await database.execute(_secure(*HOT))
    await database.execute(f"grant inboxd_worker to {name}")
    for table in HOT:
        await database.execute(f"alter table inboxd.{table} owner to {name}")
    worker = await start_worker({"database": {"dsn": dsn}})
    await inbox.succeeded("event", await inbox.write("event", "test.ledger", {"n": 1}))
    await worker.stop()
    await database.execute(_secure(*HOT, to="FORCE"))
    worker = await start_worker({"database": {"dsn": dsn}}, ready=False)
    assert await worker.wait() == 78
    for table in HOT:
        await database.execute(f"alter table inboxd.{table} owner to postgres")


@pytest.mark.anyio
async def test_receiver_that_would_see_no_pauses_does_not_start(
    database: Database, login: Login, tmp_path: Path
) -> None:
    dsn = login("inboxd_receiver")
    await database.execute(_secure("controls"))
    with held_port() as held:
        receiver = Receiver(tmp_path, dsn, port_of(held), http={}, source={}, config={})
        try:
            assert await receiver.wait() == 78
        finally:
            receiver.kill()
    assert "row level security hides rows of controls from this role" in receiver.output()


@pytest.mark.anyio
async def test_receiver_keeps_its_known_pauses_while_rows_are_hidden(
    database: Database, login: Login, tmp_path: Path
) -> None:
    """If it forgot them, it would accept receipts of a source that a person has paused."""
    dsn = login("inboxd_receiver")
    await database.execute(
        "insert into inboxd.controls (kind, name, actor, mode)"
        " values ('source', 'bets', 'me', 'refuse')"
    )
    with held_port() as held:
        receiver = Receiver(tmp_path, dsn, port_of(held), http={}, source={}, config={})
        try:
            await receiver.ready()
            await receiver.logged("controls changed")
            await database.execute(_secure("controls"))
            await receiver.logged("row level security hides rows of controls from this role")
            await database.execute(_secure("controls", to="DISABLE"))
            await receiver.logged("the receiver can use the database again")
        finally:
            receiver.kill()
    with safety():
        assert receiver.output().count("controls changed") == 1


@pytest.mark.parametrize("case", HIDING)
def test_check_and_doctor_name_hidden_rows(
    cli: Cli, sql: Sql, login: Login, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    for statement in filter(None, [_secure("events"), *HIDING[case].split(";")]):
        sql(statement)
    found = Report(cli).one("row level security", "warning", "rows of events from ", "_worker")
    assert cli("check").code == 0
    monkeypatch.setenv("INBOXD_DATABASE__DSN", login("inboxd_worker"))
    Report(cli).one("row level security", "critical", "hides rows of events")
    result = cli("check", "--json")
    assert result.code == 1
    assert [each["subject"] for each in result.json["checks"] if each["verdict"] == "fail"] == [
        "row level security"
    ]
    sql(found["remedy"].removeprefix("run: "))
    assert Report(cli).of("row level security") == []
    assert cli("check").code == 0


def test_policy_for_all_rows_hides_none(
    cli: Cli, sql: Sql, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner gets no warning about other roles once each role in use has a policy."""
    sql(_secure("events"))
    sql("create policy p on inboxd.events to inboxd_worker using (true) with check (true)")
    sql("create policy q on inboxd.events as restrictive to inboxd_viewer using (type = 'other')")
    others = "from inboxd_operator, inboxd_producer, inboxd_viewer:"
    Report(cli).one("row level security", "warning", others)
    worker = login("inboxd_worker")
    for role in ("operator", "producer"):
        sql(f"create policy {role} on inboxd.events to inboxd_{role} using (true)")
    Report(cli).one("row level security", "warning", "from inboxd_viewer:")
    sql("drop policy q on inboxd.events")
    sql("create policy viewer on inboxd.events to inboxd_viewer using (true)")
    assert Report(cli).of("row level security") == []
    monkeypatch.setenv("INBOXD_DATABASE__DSN", worker)
    assert "critical" not in {each["verdict"] for each in Report(cli).of("row level security")}
    assert cli("check").code == 0


def test_table_without_a_privilege_is_not_reported_for_a_role(
    cli: Cli, sql: Sql, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A viewer cannot read bodies in any case."""
    sql(_secure("bodies"))
    monkeypatch.setenv("INBOXD_DATABASE__DSN", login("inboxd_viewer"))
    (found,) = Report(cli).of("row level security")
    assert found["verdict"] == "warning"
    assert "from inboxd_operator, inboxd_worker:" in found["found"]


def test_forced_security_hides_rows_from_functions(
    cli: Cli, sql: Sql, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions run as the owner, so a role with a policy is hidden from them all the same."""
    owner = name_of(login())
    sql(_secure("events"))
    sql("create policy p on inboxd.events to inboxd_worker, inboxd_producer using (true)")
    sql("create policy q on inboxd.events to inboxd_viewer, inboxd_operator using (true)")
    sql(f"alter table inboxd.events owner to {owner}")
    try:
        monkeypatch.setenv("INBOXD_DATABASE__DSN", login("inboxd_worker"))
        assert Report(cli).of("row level security") == []
        sql(_secure("events", to="FORCE"))
        Report(cli).one(
            "row level security", "critical", "from the owner, whose privileges functions have"
        )
        assert cli("check").code == 1
        sql(f"create policy r on inboxd.events to {owner} using (true)")
        assert Report(cli).of("row level security") == []
    finally:
        sql("drop policy if exists r on inboxd.events")
        sql("alter table inboxd.events owner to postgres")


def test_remedy_has_all_statements(cli: Cli, sql: Sql) -> None:
    """A tool has enabled row security on every table of the database."""
    tables = sql(
        "select relname from pg_class where relnamespace = 'inboxd'::regnamespace"
        " and relkind in ('r', 'p')"
    )
    for (name,) in tables:
        sql(_secure(name))
    found = Report(cli).one("row level security", "warning", " more")
    for statement in found["remedy"].removeprefix("run: ").splitlines():
        sql(statement)
    assert Report(cli).of("row level security") == []
