"""`inboxd erase` removes the subject's data from all tables, and keeps all other data."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
import asyncpg
import pytest

from inboxd.store import erase
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session

Sql = Callable[..., list[asyncpg.Record]]

USER = ("--entity-type", "user", "--entity-id", "SECRET42")
_WHO = "unnest(array['SECRET42', 'SECRET43']) who, unnest(array[1, 4000]) size returning id"
_SAYS = "jsonb_build_object('name', who, 'long', repeat('x', size))"
_EVENTS = f"""
    insert into inboxd.events (type, tenant, entity_type, entity_id, payload, headers, status,
                               errors)
    select 'test.a', 'acme', 'user', who, {_SAYS}, jsonb_build_object('from', who), $1,
           jsonb_build_array(jsonb_build_object('error', who)) from {_WHO}"""
_COMMANDS = f"""
    insert into inboxd.commands (type, queue, tenant, entity_type, entity_id, payload, unique_key,
                                 status, errors)
    select 'test.b', 'mail', 'acme', 'user', who, {_SAYS}, $1 || who || size, $1,
           jsonb_build_array(who) from {_WHO}"""


@pytest.fixture
def settled(sql: Sql, cli: Cli, database: Database) -> None:
    """Settle two events and two commands of each of two users; one of each has a body."""
    events = [row["id"] for row in sql(_EVENTS, "pending")]

    async def settle() -> None:
        async with daemon_session(database) as session:
            await session.execute("settle_events", events, [0.1] * len(events), None)

    anyio.run(settle)
    assert cli("commands", "cancel", *(row["id"] for row in sql(_COMMANDS, "pending"))).code == 0
    sql(
        "update inboxd.commands_history set result = to_jsonb(entity_id),"
        " progress = jsonb_build_object('note', entity_id), ordering_key = 'key-' || entity_id"
    )


@pytest.fixture
def places(sql: Sql) -> Callable[[str], dict[str, int]]:
    """Return a function that counts the rows with a word, by table."""

    def look(word: str) -> dict[str, int]:
        found = {}
        for (table,) in sql(
            "select relname from pg_class where relnamespace = 'inboxd'::regnamespace"
            " and relkind in ('r', 'p') and not relispartition"
        ):
            (row,) = sql(
                f"select count(*) as n from inboxd.{table} t where t::text like $1", f"%{word}%"
            )
            if row["n"]:
                found[table] = row["n"]
        return found

    return look


@pytest.mark.usefixtures("settled")
def test_erasure_leaves_nothing_in_any_table(
    cli: Cli, sql: Sql, places: Callable[[str], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "_STRETCH", 1)
    monkeypatch.setattr(erase, "_PAGE", 3)
    sql(_EVENTS, "failed")
    sql(_COMMANDS, "failed")
    everywhere = {"events": 2, "commands": 2, "events_history": 2, "commands_history": 2}
    assert places("SECRET42") == everywhere | {"bodies": 4}
    seen = cli("erase", *USER, "--dry-run", "--json").json["would_erase"]
    assert seen == {
        **{f"settled_{place}": 2 for place in ("events", "commands")},
        **{f"dead_letters_{place}": 2 for place in ("events", "commands")},
        **{f"{how}_{p}": 0 for how in ("waiting", "running") for p in ("events", "commands")},
        "held_events": 0,
        "bodies": 2,
    }
    assert places("SECRET42") == everywhere | {"bodies": 4}, "a dry run changes nothing"
    skeletons = "select count(*), count(payload), min(type) from inboxd.events_history"
    before = sql(f"{skeletons} where status = 'succeeded'")[0]

    done = cli("erase", *USER, "--yes", "--json", "--reason", "she asked for it")
    assert (done.code, done.json["left"]) == (0, 0), done.err
    assert done.json["erased"]["settled_events"] == 4
    assert done.json["erased"]["settled_commands"] == 4
    assert done.json["erased"]["bodies"] == 4

    assert places("SECRET42") == {"audit": 1}, "the audit proves the erasure"
    assert places("SECRET43") == everywhere | {"bodies": 4}, "rows of the other user stay"
    after = sql(f"{skeletons} where status = 'succeeded'")[0]
    assert (after[0], after[2]) == (before[0], before[2]), "the rows stay without content"
    (line,) = cli("audit", "--action", "erase", "--json").json["audit"]
    assert line["count"] == 8
    assert line["target"] == "entity_type=user entity_id=SECRET42"
    assert line["reason"] == "she asked for it"
    (row,) = sql(
        "select status, count(*) from inboxd.events_history where entity_id is null"
        " and status = 'dismissed' group by 1"
    )
    assert row["count"] == 2, "dead letters are dismissed"
    again = cli("erase", *USER, "--yes", "--json").json
    assert again["erased"]["settled_events"] == 0
    assert len(cli("audit", "--action", "erase", "--json").json["audit"]) == 1


def test_erasure_leaves_nothing_in_deliveries(
    cli: Cli, sql: Sql, places: Callable[[str], dict[str, int]]
) -> None:
    """Deliveries are commands with the webhook's entity; so are resent ones."""
    added = cli("endpoints", "add", "one", "https://one.example", "--type", "*")
    assert added.code == 0
    for who in ("SECRET42", "SECRET43"):
        sql(
            "select from inboxd.send_webhook('user.created', jsonb_build_object('name', $1::text),"
            " entity_type => 'user', entity_id => $1)",
            who,
        )
    sql("update inboxd.commands set status = 'failed'")
    assert cli("endpoints", "resend", "one", "--failed").code == 0
    sql("update inboxd.commands set status = 'failed'")
    assert places("SECRET42") == {"commands": 1, "commands_history": 1}
    assert cli("erase", *USER, "--yes").code == 0
    assert places("SECRET42") == {"audit": 1}
    assert places("SECRET43") == {"commands": 1, "commands_history": 1}


@pytest.mark.usefixtures("settled")
def test_tenant_is_erased(cli: Cli, places: Callable[[str], dict[str, int]]) -> None:
    assert places("SECRET42")["events_history"] == 2
    assert cli("erase", "--tenant", "acme", "--yes").code == 0
    assert places("SECRET4") == {}
    assert set(places("acme")) == {"audit"}


@pytest.mark.usefixtures("settled")
def test_erasure_without_rows_is_reported_and_not_audited(
    cli: Cli, places: Callable[[str], dict[str, int]]
) -> None:
    other = ("erase", *USER, "--tenant", "other")
    said = "no row belongs to tenant=other entity_type=user entity_id=SECRET42"
    nothing = cli(*other, "--yes")
    assert (nothing.code, nothing.out) == (66, "")
    assert said in nothing.err
    assert "audit" not in nothing.err
    assert cli(*other, "--dry-run").code == 66
    forced = cli(*other, "--yes", "--force")
    assert (forced.code, forced.out) == (0, "")
    assert said in forced.err
    assert places("SECRET42")["events_history"] == 2
    assert cli("audit", "--action", "erase", "--json").json["audit"] == []


def test_unsettled_rows_are_erased_only_with_their_option(
    cli: Cli, sql: Sql, places: Callable[[str], dict[str, int]]
) -> None:
    sql(_EVENTS, "pending")
    sql(_COMMANDS, "pending")
    sql("insert into inboxd.topics (name, mode, source) values ('lines', 'sequential', 'plugin')")
    sql(
        "insert into inboxd.events (type, topic, ordering_key, entity_type, entity_id)"
        " values ('test.a', 'lines', 'k', 'user', 'SECRET42')"
    )
    worker = sql("select gen_random_uuid() as id")[0]["id"]
    sql(
        "update inboxd.commands set status = 'running', worker_id = $1 where id ="
        " (select min(id) from inboxd.commands where entity_id = 'SECRET42')",
        worker,
    )
    before = places("SECRET42")
    refused = cli("erase", *USER, "--yes")
    assert (refused.code, places("SECRET42")) == (1, before)
    assert "--unsettled" in refused.err
    done = cli("erase", *USER, "--yes", "--unsettled")
    assert done.code == 1, "one command is still running"
    assert "1 row is still running or was just written" in done.err
    (left,) = sql("select status, cancel_requested from inboxd.commands where entity_id like '%42'")
    assert tuple(left) == ("running", True)
    sql("update inboxd.commands set status = 'failed', worker_id = null where status = 'running'")
    assert cli("erase", *USER, "--yes").code == 0
    assert set(places("SECRET42")) == {"audit"}
    ends = sql("select distinct status from inboxd.events_history where type = 'test.a'")
    assert [row["status"] for row in ends] == ["cancelled"]


def test_invalid_erasures_are_refused(cli: Cli, sql: Sql) -> None:
    for wrong, said in (
        ((), "name the rows to erase"),
        (("--entity-type", "user", "--yes"), "give both"),
        (("--tenant", "acme"), "cannot be undone"),
        (("--tenant", "", "--yes"), "name the rows to erase"),
    ):
        refused = cli("erase", *wrong)
        assert refused.code == 2
        assert said in refused.err
    sql(_EVENTS, "failed")
    answered = cli("erase", *USER, stdin="n\n", terminal=True)
    assert answered.code == 1
    assert "dead letters events" in answered.out
    assert cli("erase", *USER, stdin="y\n", terminal=True).code == 0


def test_erasure_waits_for_a_locked_line(
    cli: Cli, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure changes nothing while another session holds the bucket of a line."""
    monkeypatch.setenv("INBOXD_DATABASE__LOCK_TIMEOUT", "200ms")
    sql("insert into inboxd.topics (name, mode, source) values ('lines', 'sequential', 'plugin')")
    (row,) = sql(
        "insert into inboxd.events (type, topic, ordering_key, entity_type, entity_id) values"
        " ('test.a', 'lines', 'k', 'user', 'SECRET42') returning topic, bucket"
    )

    async def erase() -> int:
        async with daemon_session(database) as session, session.transaction():
            await session.execute("hold_buckets", [row["topic"]], [row["bucket"]])
            done = await anyio.to_thread.run_sync(cli, "erase", *USER, "--yes", "--unsettled")
            return done.code

    assert anyio.run(erase) == 75
    assert len(sql("select from inboxd.events")) == 1
    assert cli("erase", *USER, "--yes", "--unsettled").code == 0
    assert not sql("select from inboxd.events")


def test_row_replayed_during_an_erasure_is_not_cancelled(
    cli: Cli, sql: Sql, database: Database
) -> None:
    """The row was a dead letter when erase found it, and is pending when erase has its lock."""
    (row,) = sql(
        "insert into inboxd.commands (type, entity_type, entity_id, status) values"
        " ('test.b', 'user', 'SECRET42', 'failed') returning id"
    )

    async def erase() -> int:
        async with daemon_session(database) as session, anyio.create_task_group() as tasks:
            codes: list[int] = []

            async def run() -> None:
                codes.append((await anyio.to_thread.run_sync(cli, "erase", *USER, "--yes")).code)

            async with session.transaction():
                await session.connection.execute(
                    "update inboxd.commands set status = 'pending' where id = $1", row["id"]
                )
                tasks.start_soon(run)
                await lock_awaited(database)
        return codes[0]

    assert anyio.run(erase) == 1
    assert [each["status"] for each in sql("select status from inboxd.commands")] == ["pending"]


@pytest.fixture
def worker_role(sql: Sql, database: Database) -> Iterator[str]:
    """Make a login with the worker's role; returns its URL."""
    name = f"{database.name}_daemon"
    sql(f"create role {name} login in role inboxd_worker")
    parts = urlsplit(database.dsn)
    yield urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))
    sql(f"drop owned by {name}")
    sql(f"drop role {name}")


@pytest.mark.direct("the pooler knows one role")
def test_workers_role_cannot_erase(
    cli: Cli, sql: Sql, worker_role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(_EVENTS, "failed")
    sql("revoke delete on inboxd.census_types, inboxd.census_tenants from inboxd_worker")
    sql("revoke execute on function inboxd.begin_census from inboxd_worker")
    monkeypatch.setenv("INBOXD_DATABASE__DSN", worker_role)
    refused: Any = cli("erase", *USER, "--yes")
    assert refused.code == 69
    for lacking in (
        *("UPDATE on inboxd.events_history", "EXECUTE on inboxd.erase_receipts"),
        *("DELETE on inboxd.census_types", "DELETE on inboxd.census_tenants"),
        "EXECUTE on inboxd.begin_census",
    ):
        assert lacking in refused.err
    assert refused.err.startswith("inboxd: this role is not allowed to erase: ")
    assert "owner" in refused.err


def test_help_says_that_yes_is_required_without_a_terminal(cli: Cli) -> None:
    told = " ".join(cli("erase", "--help").out.split())
    assert "required without a terminal" in told
    assert "the command never asks" not in told
