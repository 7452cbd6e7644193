"""A publication of all tables: rows can still be changed and deleted, also in future partitions."""

from collections.abc import Callable

import anyio.to_thread
import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.cli.troubles import Report
from tests.daemon.inbox import Inbox
from tests.support import Database, StartWorker, eventually
from tests.support.verdicts import safety

Sql = Callable[..., list[asyncpg.Record]]

PUBLISH = "create publication everything for all tables"
# Each table that holds rows, with a column that may be set.
_TABLES = """
select c.relname as name,
       (select quote_ident(a.attname) from pg_attribute a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attidentity = ''
         order by a.attnum limit 1) as first
  from pg_class c where c.relnamespace = 'inboxd'::regnamespace and c.relkind = 'r' order by 1
"""


@pytest.mark.anyio
async def test_every_table_may_be_changed(database: Database) -> None:
    """The server refuses such statements even if they match no row."""
    await database.execute(PUBLISH)
    await database.execute("select inboxd.make_partitions(10)")
    refused = []
    tables = await database.fetch(_TABLES)
    assert len(tables) > 60
    for name, column in tables:
        for statement in (
            f"delete from inboxd.{name} where false",
            f"update inboxd.{name} set {column} = {column} where false",
        ):
            try:
                await database.execute(statement)
            except asyncpg.ObjectNotInPrerequisiteStateError:
                refused.append(statement)
    assert refused == []


@pytest.mark.anyio
async def test_worker_and_erasure_work_under_a_publication(
    inbox: Inbox, start_worker: StartWorker, cli: Cli
) -> None:
    database = inbox.database
    await start_worker({"maintenance": {"interval": "500ms"}})
    await database.execute(PUBLISH)
    await inbox.write("event", "batch.make", {"members": ["ok", "sql"], "times": 1}, tenant="x")

    async def is_folded() -> bool:
        rows = await database.fetch("select status, succeeded from inboxd.batches")
        return [tuple(row) for row in rows] == [("succeeded", 2)]

    await eventually(is_folded)
    with safety():
        assert await database.fetchval("select count(*) from inboxd.batch_progress") == 0
    erased = await anyio.to_thread.run_sync(lambda: cli("erase", "--tenant", "x", "--yes"))
    assert erased.code == 0, erased.err
    report = await anyio.to_thread.run_sync(lambda: Report(cli))
    report.one("publications", "ok")


@pytest.mark.parametrize(
    ("publication", "verdict"),
    [
        ("for all tables", "critical"),
        ("for tables in schema inboxd", "critical"),
        ("for table inboxd.events_history", "critical"),
        ("for all tables with (publish = 'insert')", "notice"),
        ("for table inboxd.audit", "notice"),
    ],
)
def test_day_made_by_hand_is_named(cli: Cli, sql: Sql, publication: str, verdict: str) -> None:
    day = "events_history_20200101"
    sql(
        f"create table inboxd.{day} partition of inboxd.events_history"
        " for values from ('2020-01-01Z') to ('2020-01-02Z')"
    )
    Report(cli).one("publications", "notice", day)
    sql(f"create publication chosen {publication}")
    found = Report(cli).one("publications", verdict, day, "REPLICA IDENTITY FULL")
    checks = {each["subject"]: each for each in cli("check", "--json").json["checks"]}
    assert checks["publications"]["verdict"] == ("fail" if verdict == "critical" else "warn")
    sql(found["remedy"].removeprefix("run: "))
    Report(cli).one("publications", "ok")
