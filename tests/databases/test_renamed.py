"""A renamed schema: check reports it, migrate makes its functions again, and workers go on."""

import re
from collections.abc import Callable, Iterator

import anyio
import anyio.to_thread
import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.daemon.inbox import Inbox
from tests.databases.conftest import At, Login
from tests.support import StartWorker, eventually

Sql = Callable[..., list[asyncpg.Record]]

# References to the old schema; `inboxd.notify` and `inboxd.webhooks` are settings in every schema.
_OLD = re.compile(r"\binboxd[._](?!(?:notify|webhooks)\b)|'inboxd'")
ROLES = ("operator", "producer", "receiver", "viewer", "worker")


@pytest.fixture
def schema(cli: Cli, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The new name of the schema, which the settings have; its roles are this test's own."""
    del cli
    name = f"jobs_{inbox.database.name[-12:]}"
    anyio.run(inbox.database.execute, f"alter schema inboxd rename to {name}")
    monkeypatch.setenv("INBOXD_DATABASE__SCHEMA", name)
    yield name
    for role in ROLES:
        drop = f"""do $$ begin if to_regrole('{name}_{role}') is not null then
                   drop owned by {name}_{role}; drop role {name}_{role}; end if; end $$"""
        anyio.run(inbox.database.execute, drop)


def test_remedy_of_check_and_doctor_helps(
    cli: Cli, schema: str, sql: Sql, at: At, login: Login, inbox: Inbox
) -> None:
    dsn = login("inboxd_worker")
    result = cli("check", "--json")
    assert result.code == 1
    (failed,) = [each for each in result.json["checks"] if each["verdict"] == "fail"]
    assert (failed["subject"], failed["remedy"]) == ("schema", "run: inboxd migrate")
    Report(cli).one("version", "critical", schema, "run: inboxd migrate")
    assert "pending: functions" in cli("migrate", "--check").out
    assert cli("migrate").code == 0
    assert cli("migrate", "--check").code == 0
    assert cli("check").code == 0
    report = Report(cli)
    for subject in ("version", "drift", "partitions", "publications", "sequences"):
        report.one(subject, "ok")
    names = sql(
        "select pg_get_functiondef(p.oid) from pg_proc p where pronamespace = $1::regnamespace"
        " union all select pg_get_viewdef(c.oid) from pg_class c"
        "  where relnamespace = $1::regnamespace and relkind = 'v'",
        schema,
    )
    assert len(names) > 100
    assert [text for (text,) in names if _OLD.search(text)] == []
    # Old roles keep their privileges; roles of the new name are made by `migrate --grants`.
    assert at(dsn)("check").code == 0
    cli = at(inbox.database.dsn)
    assert cli("migrate", "--grants", "--json").json["roles_missing"] == []
    Report(cli).one("rights", "ok")
    assert at(login(f"{schema}_worker"))("check").code == 0


@pytest.mark.anyio
async def test_worker_runs_in_the_renamed_schema(
    schema: str, cli: Cli, inbox: Inbox, start_worker: StartWorker
) -> None:
    config = {"database": {"dsn": inbox.database.dsn, "schema": schema}}
    worker = await start_worker(config, ready=False)
    assert await worker.wait() == 78
    assert "run: inboxd migrate" in worker.output()
    assert (await anyio.to_thread.run_sync(lambda: cli("migrate"))).code == 0
    worker = await start_worker({**config, "maintenance": {"interval": "500ms"}})
    database = inbox.database
    await database.execute(
        f"select {schema}.emit_event('test.ledger', '{{\"n\": 1, \"sends\": 1}}'),"
        f"       {schema}.send_command('test.ledger', '{{\"n\": 2}}')"
    )

    async def is_settled() -> bool:
        return bool(
            await database.fetchval(
                f"select (select count(*) from {schema}.events_history) = 1"
                f" and (select count(*) from {schema}.commands_history) = 2"
            )
        )

    await eventually(is_settled)
    parts = f"select count(*) from {schema}.every_partition"
    before = await database.fetchval(parts)
    assert before > 0
    await database.execute(f"select {schema}.make_partitions(20)")
    assert await database.fetchval(parts) > before
    assert (await worker.get("/readyz"))[0] == 200
