"""`inboxd rehearse`: its report, its refusals, and that it leaves no writes behind."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import asyncpg
import orjson
import psycopg
import pytest

from inboxd_testplugin import chunked
from tests.cli.conftest import Cli, Result
from tests.support import Database, StartWorker, eventually
from tests.support.plugins import install

Sql = Callable[..., list[asyncpg.Record]]
Rehearse = Callable[..., Any]

# Tables of the plugin's handlers.
TABLES = f"""
create table ledger (kind text, row_id bigint, note text);
create table parent (id int primary key);
create table child (parent int references parent deferrable initially deferred);
create table stock (item text primary key, left_over int);
insert into stock values ('apple', 7);
create table days (day date) partition by range (day);
create table days_1 partition of days for values from ('2026-01-01') to ('2027-01-01');
{chunked.TABLES}
"""
_ALL = """
select format('%I.%I', n.nspname, c.relname)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname in ('inboxd', 'public') and c.relname <> 'days'
"""


async def everything(database: Database) -> dict[str, list[str]]:
    """Return every row of every table."""
    async with database.connect() as connection:
        return {
            table: sorted(
                row[0] for row in await connection.fetch(f"select t::text from {table} t")
            )
            for (table,) in await connection.fetch(_ALL)
        }


def emit(ask: Sql, type_: str, **payload: Any) -> int:
    statement = "insert into inboxd.events (type, payload) values ($1, $2::text::jsonb)"
    return int(ask(f"{statement} returning id", type_, orjson.dumps(payload).decode())[0][0])


def send(ask: Sql, type_: str, **payload: Any) -> int:
    statement = (
        "insert into inboxd.commands (type, payload, queue) values ($1, $2::text::jsonb, 'default')"
    )
    return int(ask(f"{statement} returning id", type_, orjson.dumps(payload).decode())[0][0])


@pytest.fixture(autouse=True)
def tables(database: Database) -> None:
    anyio.run(database.execute, TABLES)


@pytest.fixture
def rehearse(cli: Cli, database: Database) -> Rehearse:
    """Rehearse, check that no table changed, and return the report."""

    def run(*arguments: object) -> Any:
        before = anyio.run(everything, database)
        assert before["public.stock"] == ["(apple,7)"]
        result = cli("rehearse", *arguments, "--yes", "--json")
        assert anyio.run(everything, database) == before
        told = result.json
        assert result.code == (0 if told["outcome"] in ("succeeded", "deferred") else 1)
        return told

    return run


def written(told: Any) -> dict[str, tuple[int, int, int]]:
    return {
        each["table"]: (each["inserted"], each["updated"], each["deleted"])
        for each in told["writes"]
    }


# ---------------------------------------------------------------------------------- the report


def test_report_of_an_event_and_a_command(rehearse: Rehearse, sql: Sql) -> None:
    told = rehearse("event", emit(sql, "test.ledger", n=3, sends=2))
    assert (told["outcome"], told["attempt"], told["error"]) == ("succeeded", 1, None)
    assert written(told) == {"public.ledger": (1, 0, 0)}
    sent = [(each["kind"], each["type"], each["lane"], each["status"]) for each in told["sent"]]
    assert sent == [("command", "test.ledger", "default", "pending")] * 2
    assert all("payload" not in each for each in told["sent"])
    assert [name.rpartition(".")[2] for name in told["handlers"]] == ["ledger_event"]

    id_ = send(sql, "test.ledger", n=4, sends=1)
    uuid = sql("select command_id from inboxd.commands")[0][0]
    told = rehearse("command", uuid, "--payload")
    assert (told["id"], told["uuid"], told["lane"]) == (id_, str(uuid), "default")
    assert told["result"] == {"n": 4}
    assert [each["payload"] for each in told["sent"]] == [{"n": 0}]


def test_written_tables_are_reported(rehearse: Rehearse, sql: Sql) -> None:
    """A partition counts as its table; writes in threads and processes count too."""
    statements = (
        "insert into days values ('2026-02-02'), ('2026-02-03'); "
        "update stock set left_over = 6; delete from stock"
    )
    told = rehearse("command", send(sql, "test.misbehave", how="run sql", sql=statements))
    assert written(told) == {
        "public.days": (2, 0, 0),
        "public.ledger": (1, 0, 0),
        "public.stock": (0, 1, 1),
    }
    told = rehearse("command", send(sql, "test.thread", n=3))
    assert written(told) == {"public.ledger": (1, 0, 0)}
    told = rehearse("command", send(sql, "test.process", n=3))
    assert (written(told), told["result"]["square"]) == ({}, 9)
    told = rehearse("event", emit(sql, "test.pair", failures=0))
    assert len(told["handlers"]) == 2
    assert written(told) == {"public.ledger": (2, 0, 0)}


def test_emitted_events_and_made_batches_are_reported(rehearse: Rehearse, sql: Sql) -> None:
    for topic in ("left", "right"):
        sql("insert into inboxd.subscriptions (topic, type) values ($1, 'emitted.told')", topic)
    told = rehearse("command", send(sql, "emitting.command", count=1))
    assert [(each["kind"], each["type"], each["lane"]) for each in told["sent"]] == [
        ("event", "emitted.told", "left"),
        ("event", "emitted.told", "right"),
    ]

    options = {"dedup_key": "once", "topic": "left", "source": "s"}
    sql(
        "insert into inboxd.events (type, topic, source, dedup_key, payload) "
        """values ('emitted.told', 'left', 's', 'once', '{"n": 0, "goes_on": false}')"""
    )
    told = rehearse("command", send(sql, "emitting.command", count=1, options=options))
    assert [each["status"] for each in told["sent"]] == ["not written"]

    told = rehearse("event", emit(sql, "batch.make", members=["ok", "ok"]))
    (batch,) = told["batches"]
    found = (batch["kind"], batch["name"], batch["size"], batch["open"])
    assert found == ("batch", "made", 2, False)
    assert sorted(each["status"] for each in told["sent"]) == ["pending"] * 2 + ["waiting"] * 3


def test_progress_and_log_lines_are_reported(rehearse: Rehearse, sql: Sql) -> None:
    told = rehearse("command", send(sql, "test.progress", steps=2))
    assert [each["done"] for each in told["progress"]] == [1, 2]
    assert told["log"] == []
    told = rehearse("command", send(sql, "test.wait", n=5))
    (line,) = told["log"]
    assert (line["level"], line["message"], line["fields"]["n"]) == ("info", "waiting", 5)


def test_failing_handler_is_reported(rehearse: Rehearse, sql: Sql) -> None:
    """The report has its writes, which a worker would undo, but not its sent rows."""
    for kind, make in (("event", emit), ("command", send)):
        told = rehearse(kind, make(sql, "test.misbehave", how="raise"))
        assert (told["outcome"], told["error"]) == ("retried", "ValueError: as told")
        assert told["run_at"] is not None
        assert "inboxd_testplugin/__init__.py" in told["traceback"].splitlines()[0]
        assert told["undone"]
        assert written(told) == {"public.ledger": (1, 0, 0)}
        assert told["sent"] == []


WAYS: list[tuple[dict[str, Any], str, str]] = [
    ({"how": "reject"}, "failed", "as told"),
    ({"how": "retry later", "seconds": 3600}, "retried", "Retry"),
    ({"how": "defer", "seconds": 60}, "deferred", ""),
    ({"how": "commit"}, "retried", "its commit and rollback are not the handler's"),
    ({"how": "deferred"}, "retried", "violates foreign key constraint"),
    ({"how": "hang"}, "retried", "longer than its timeout of 0.5 s"),
]


@pytest.mark.parametrize("kind", ["event", "command"])
def test_outcomes_are_reported(rehearse: Rehearse, sql: Sql, kind: str) -> None:
    make = emit if kind == "event" else send
    for how, outcome, error in WAYS if kind == "event" else WAYS[::2]:
        type_ = "test.hangs" if how["how"] == "hang" else "test.misbehave"
        told = rehearse(kind, make(sql, type_, **how))
        assert told["outcome"] == outcome, how
        assert error in (told["error"] or ""), how
        assert (told["run_at"] is None) == (outcome == "failed"), how
    # Only the database refuses this sent row.
    type_ = "emitting.event" if kind == "event" else "emitting.command"
    sql("insert into inboxd.topics (name, mode, source) values ('passing', 'sequential', 'x')")
    told = rehearse(kind, make(sql, type_, ends="refused", uses=True))
    assert told["outcome"] == "retried"
    assert "mode" in told["error"]


def test_ended_row_runs_as_its_replay(rehearse: Rehearse, sql: Sql, cli: Cli) -> None:
    dead = send(sql, "test.ledger", n=1)
    late = "deadline = now() - interval '1 day'"
    sql(f"update inboxd.commands set status = 'failed', attempts = 3, {late} where id = $1", dead)
    told = rehearse("command", dead)
    assert (told["outcome"], told["attempt"], told["status"]) == ("succeeded", 1, "failed")

    old = emit(sql, "test.headers")
    sql("update inboxd.events set status = 'failed' where id = $1", old)
    assert cli("events", "dismiss", old).code == 0
    told = rehearse("event", old)
    assert (told["outcome"], told["status"]) == ("succeeded", "dismissed")


def test_rehearsal_says_that_a_command_has_expired(rehearse: Rehearse, sql: Sql) -> None:
    sent = send(sql, "test.ledger", n=1)
    sql("update inboxd.commands set expires_at = now() where id = $1", sent)
    told = rehearse("command", sent)
    assert told["outcome"] == "succeeded"
    assert "a worker would cancel it" in " ".join(told["remarks"])


def test_waiting_rows_are_rehearsed_before_their_turn(rehearse: Rehearse, sql: Sql) -> None:
    """Waiting rows are rehearsed before their turn, and their lines are not locked."""
    sql(
        "insert into inboxd.events (type, topic, mode, ordering_key, payload) "
        "select 'test.ledger', 'alone', 'sequential', 'k', '{}' from generate_series(1, 2)"
    )
    sql(
        "insert into inboxd.commands (type, queue, ordering_key, payload) "
        "select 'test.ledger', 'default', 'k', '{}' from generate_series(1, 2)"
    )
    for kind in ("event", "command"):
        last = sql(f"select max(id) from inboxd.{kind}s where status = 'waiting'")[0][0]
        told = rehearse(kind, last)
        assert (told["status"], told["outcome"]) == ("waiting", "succeeded")
        assert written(told) == {"public.ledger": (1, 0, 0)}


def test_stored_body_is_the_payload(rehearse: Rehearse, sql: Sql) -> None:
    id_ = send(sql, "test.any", text="x" * 5_000)
    assert sql("select body_id from inboxd.commands where id = $1", id_)[0][0] is not None
    assert rehearse("command", id_)["result"] == {"text": "x" * 5_000}


# ------------------------------------------------------------------------------------- limits


@pytest.fixture
def other_session(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """Open another session, in a transaction."""
    with psycopg.connect(database.dsn) as connection:
        yield connection
        connection.rollback()


def test_lock_timeout_is_reported(
    rehearse: Rehearse, sql: Sql, other_session: psycopg.Connection[Any]
) -> None:
    """The rehearsal does not wait for a lock on its row, which a worker may hold."""
    statement = {"sql": "update stock set left_over = 0"}
    id_ = send(sql, "test.misbehave", how="run sql", **statement)
    other_session.execute("select * from stock for update")
    other_session.execute("select * from inboxd.commands for update")
    told = rehearse("command", id_, "--lock-timeout", "50ms")
    assert told["outcome"] == "retried"
    assert "lock timeout" in told["error"]
    assert any("50ms (--lock-timeout)" in each for each in told["remarks"])
    other_session.execute("select 1")
    told = rehearse("command", send(sql, "test.ledger"), "--lock-timeout", "50ms")
    assert told["outcome"] == "succeeded"


def test_statement_and_idle_timeouts_are_reported(rehearse: Rehearse, sql: Sql) -> None:
    slow = send(sql, "test.patient", sql="select pg_sleep(30)")
    told = rehearse("command", slow, "--statement-timeout", "50ms")
    assert "statement timeout" in told["error"]
    assert any("50ms (--statement-timeout)" in each for each in told["remarks"])
    for kind, idle in (
        ("command", send(sql, "test.ledger", wait=0.5)),
        ("event", emit(sql, "test.ledger", wait=0.5)),
    ):
        told = rehearse(kind, idle, "--idle-timeout", "50ms")
        assert told["outcome"] == "retried"
        assert any("--idle-timeout" in each for each in told["remarks"])


def test_missing_right_is_reported(rehearse: Rehearse, sql: Sql) -> None:
    statement = {"sql": "set local role pg_monitor; select from stock"}
    told = rehearse("event", emit(sql, "test.misbehave", how="run sql", **statement))
    assert "permission denied for table stock" in told["error"]
    assert any("lacks the right" in each for each in told["remarks"])


@pytest.mark.direct("the pooler knows one role")
def test_workers_role_suffices(
    rehearse: Rehearse, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{database.name}_me"
    sql(f"create role {name} login in role inboxd_worker")
    try:
        parts = urlsplit(database.dsn)
        netloc = f"{name}@{parts.netloc.rpartition('@')[2]}"
        monkeypatch.setenv("INBOXD_DATABASE__DSN", urlunsplit(parts._replace(netloc=netloc)))
        for row in (
            ("event", emit(sql, "test.fan", sends=1)),
            ("event", emit(sql, "batch.make", members=["ok"])),
            ("command", send(sql, "emitting.command", count=1)),
        ):
            told = rehearse(*row)
            assert (told["outcome"], told["role"]) == ("succeeded", name)
            assert told["sent"]
        told = rehearse("event", emit(sql, "test.ledger"))
        assert "permission denied for table ledger" in told["error"]
        assert any(f"The role '{name}' lacks the right" in each for each in told["remarks"])
    finally:
        sql(f"drop owned by {name}")
        sql(f"drop role {name}")


def test_closed_session_and_hidden_commit_are_reported(cli: Cli, sql: Sql) -> None:
    """A worker cannot undo a hidden commit either; other commits are refused."""
    for kind, make in (("event", emit), ("command", send)):
        ended = make(sql, "test.misbehave", how="close quietly")
        told = cli("rehearse", kind, ended, "--yes", "--json").json
        assert told["outcome"] == "retried"
        assert any("session has ended" in each for each in told["remarks"])
        assert sql("select * from ledger") == []
        hidden = make(sql, "test.misbehave", how="well hidden commit")
        told = cli("rehearse", kind, hidden, "--yes", "--json").json
        assert told["outcome"] == "retried"
        assert any("ended the transaction itself" in each for each in told["remarks"])
        sql("delete from ledger")


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["command", 4711, "--yes"], 1, "there is no command 4711"),
        (["batch", 1, "--yes"], 2, "'batch'"),
        (["event", "x", "--yes"], 2, "not a row number or a uuid"),
        (["event", 1], 2, "give --yes"),
        (["event", 1, "--yes", "--json", "--debugger"], 2, "--json or --debugger"),
        (["event", 1, "--yes", "--lock-timeout", "0s"], 2, "--lock-timeout"),
        (["event", 1, "--yes", "--statement-timeout", "5"], 2, "not a duration"),
    ],
)
def test_invalid_rehearsals_are_refused(
    run_cli: Cli, arguments: list[object], code: int, told: str, request: pytest.FixtureRequest
) -> None:
    cli: Cli = request.getfixturevalue("cli") if 4711 in arguments else run_cli
    result = cli("rehearse", *arguments)
    assert (result.code, result.out) == (code, "")
    assert told in result.err


def test_type_without_an_installed_handler_is_refused(cli: Cli, sql: Sql) -> None:
    result = cli("rehearse", "event", emit(sql, "test.ledgre"), "--yes")
    assert result.code == 1
    assert "no installed plugin handles the event 'test.ledgre'" in result.err
    assert "did you mean 'test.ledger'?" in result.err


def test_rehearse_warns_and_asks_at_a_terminal(cli: Cli, sql: Sql, database: Database) -> None:
    id_ = emit(sql, "test.ledger", sends=1)
    before = anyio.run(everything, database)
    refused = cli("rehearse", "event", id_, terminal=True, stdin="n\n")
    assert (refused.code, refused.out.strip()) == (1, "")
    for told in ("NOT undone", "HTTP requests", "sequences", "may run it at the same time"):
        assert told in refused.err
    agreed: Result = cli("rehearse", "event", id_, terminal=True, stdin="y\n")
    assert agreed.code == 0
    assert "it would succeed" in agreed.out
    assert "public.ledger" in agreed.out
    assert anyio.run(everything, database) == before


# -------------------------------------------------------------------------------- chunks


@pytest.fixture
def line(cli: Cli, start_worker: StartWorker, sql: Sql, database: Database) -> list[int]:
    """Let a worker line up three events of a key in a batch topic, and stop it."""

    async def line_up() -> list[int]:
        worker = await start_worker()
        ids = await anyio.to_thread.run_sync(_emit_three, sql)

        async def are_lined_up() -> bool:
            query = "select count(*) from inboxd.events where position is not null"
            return int(await database.fetchval(query)) == len(ids)

        await eventually(are_lined_up)
        await worker.stop()
        return ids

    return anyio.run(line_up)


def _emit_three(ask: Sql) -> list[int]:
    return [emit(ask, "chunked.old", key="k", n=n) for n in range(3)]


def test_chunk_of_an_event_is_rehearsed(
    rehearse: Rehearse, cli: Cli, line: list[int], sql: Sql
) -> None:
    told = rehearse("event", line[1])
    assert told["chunk"] == {"topic": "old", "key": "k", "events": 3}
    assert (told["outcome"], written(told)) == ("succeeded", {"public.chunks": (1, 0, 0)})

    told = rehearse("event", line[1], "--alone")
    assert (told["chunk"], written(told)) == (None, {"public.chunks": (1, 0, 0)})

    # The failing event is found as in a worker, by halving the chunk.
    poison = """update inboxd.events set payload = payload || '{"poison": true}' where id = $1"""
    sql("alter table inboxd.events disable trigger user")
    sql(poison, line[2])
    sql("alter table inboxd.events enable trigger user")
    told = rehearse("event", line[0])
    assert [(each["id"], each["outcome"]) for each in told["events"]] == [(line[2], "retried")]
    assert "poison" in told["events"][0]["error"]

    new = emit(sql, "chunked.old", key="k")
    refused = cli("rehearse", "event", new, "--yes")
    assert refused.code == 1
    assert "in no chunk yet; --alone" in refused.err
    alone = json.loads(cli("rehearse", "event", new, "--yes", "--alone", "--json").out)
    assert alone["outcome"] == "succeeded"


# ------------------------------------------------------------------------------------ resources

TILLS = """
from collections.abc import AsyncIterator
from pathlib import Path

from inboxd import CommandContext, FailedAttempt, Handlers

handlers = Handlers("tills")
log: list[str] = []


@handlers.lifespan
async def coins() -> AsyncIterator[int]:
    log.append("coins open")
    yield 7
    log.append("coins close")


@handlers.lifespan
async def till(coins: int) -> AsyncIterator[str]:
    yield f"{coins} coins"


@handlers.lifespan
async def shelf() -> AsyncIterator[bytes]:
    log.append("shelf opens")
    yield b""


@handlers.command("tills.count")
async def count(command: dict, ctx: CommandContext, till: str) -> str:
    if command.get("fails"):
        raise ValueError("no coins")
    return f"{till} {log}"


@handlers.on_error
async def told(failed: FailedAttempt) -> None:
    log.append("told")
"""


def test_only_resources_of_the_handlers_are_opened(
    rehearse: Rehearse, sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "tills", "tills", TILLS))
    monkeypatch.setenv("INBOXD_WORKER__PLUGINS", "tills")
    told = rehearse("command", send(sql, "tills.count"))
    assert told["result"] == "7 coins ['coins open']"
    assert rehearse("command", send(sql, "tills.count", fails=True))["outcome"] == "retried"
    assert sys.modules.pop("tills").log == ["coins open", "coins close"] * 2
