"""Replay, dismiss, cancel: rows that are named, all that match, groups; and the audit of it."""

import getpass
import json
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import asyncpg
import pytest

from inboxd import operations
from inboxd.errors import Conflict, UsageError
from inboxd.operations import Selection, Terms
from inboxd.store import operations as store
from inboxd.store.session import Session
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session

Sql = Callable[..., list[asyncpg.Record]]

FAILED = '[{"at": "2026-01-01T00:00:00Z", "attempt": 3, "error": "ValueError: no such address"}]'


def insert(sql: Sql, table: str, **values: Any) -> int:
    values = {"type": "a.b"} | ({"queue": "default"} if table == "commands" else {}) | values
    columns = ", ".join(values)
    marks = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    query = f"INSERT INTO inboxd.{table} ({columns}) VALUES ({marks}) RETURNING id"
    id_: int = sql(query, *values.values())[0]["id"]
    return id_


def fail(sql: Sql, table: str, *ids: int, fingerprint: str = "f1", error: str = FAILED) -> None:
    """Make rows dead letters, as a worker does."""
    sql(
        f"""UPDATE inboxd.{table} SET status = 'failed', attempts = 3, crashes = 1,
                   errors = $2::text::jsonb, fingerprint = $3 WHERE id = ANY ($1)""",
        list(ids),
        error,
        fingerprint,
    )


def dead(sql: Sql, table: str, fingerprint: str = "f1", **values: Any) -> int:
    id_ = insert(sql, table, **values)
    fail(sql, table, id_, fingerprint=fingerprint)
    return id_


def run(sql: Sql, id_: int) -> None:
    """Let a command be claimed by a worker."""
    sql(
        """UPDATE inboxd.commands SET status = 'running', fence = 1,
                  worker_id = '00000000-0000-0000-0000-000000000001' WHERE id = $1""",
        id_,
    )


def succeed(sql: Sql, id_: int) -> None:
    """Run a command, and settle it as a worker does."""
    run(sql, id_)
    sql(
        "select inboxd.settle_command($1, 1, '00000000-0000-0000-0000-000000000001', 0.1)",
        id_,
    )


def statuses(sql: Sql, table: str = "commands") -> dict[int, str]:
    rows = sql(
        f"""SELECT id, status FROM inboxd.{table}
            UNION ALL SELECT id, status FROM inboxd.{table}_history"""
    )
    return {row["id"]: row["status"] for row in rows}


def audited(sql: Sql) -> list[tuple[str, str, int]]:
    rows = sql("SELECT action, target, count FROM inboxd.audit ORDER BY id")
    return [(row["action"], row["target"], row["count"]) for row in rows]


async def operator(database: Database, act: Callable[[Session], Awaitable[Any]]) -> Any:
    """Act on a session of one's own."""
    async with daemon_session(database) as connection:
        return await act(Session(connection, SQL))


# -------------------------------------------------------------------------------------- replay


def test_a_dead_letter_is_replayed_as_a_new_row_in_its_place(cli: Cli, sql: Sql) -> None:
    old = dead(
        sql,
        "commands",
        payload='{"n": 1}',
        priority=3,
        tenant="t1",
        correlation_id="the story",
        max_attempts=4,
        entity_type="user",
        entity_id="7",
    )
    key = sql("SELECT command_id FROM inboxd.commands")[0][0]
    (done,) = cli("commands", "replay", key, "--reason", "mended", "--json").json["replayed"]
    assert done["old_id"] == old
    (new,) = sql("SELECT * FROM inboxd.commands")
    assert new["id"] == done["new_id"] != old
    assert new["command_id"] != key
    assert (new["status"], new["attempts"], new["crashes"]) == ("pending", 0, 0)
    assert (new["errors"], new["fingerprint"]) == (None, None)
    assert json.loads(new["payload"]) == {"n": 1}
    assert (new["priority"], new["tenant"], new["max_attempts"]) == (3, "t1", 4)
    assert (new["entity_type"], new["entity_id"]) == ("user", "7")
    assert (new["origin_kind"], new["origin_id"], new["replay_of"]) == ("replay", old, old)
    assert (new["correlation_id"], new["causation_id"]) == ("the story", key)
    assert new["run_at"] > datetime.now(UTC) - timedelta(minutes=1)
    (kept,) = sql("SELECT * FROM inboxd.commands_history")
    assert (kept["id"], kept["command_id"], kept["status"]) == (old, key, "failed")
    assert (kept["attempts"], kept["errors"] is None) == (3, False)


def test_both_rows_say_of_the_replay(cli: Cli, sql: Sql) -> None:
    old = dead(sql, "commands")
    (done,) = cli("commands", "replay", old, "--reason", "mended", "--json").json["replayed"]
    (listed,) = cli("commands", "show", old, "--json").json["replays"]
    assert (listed["new_id"], listed["reason"]) == (done["new_id"], "mended")
    assert listed["actor"].startswith(getpass.getuser())
    assert cli("commands", "show", done["new_id"], "--json").json["replay_of"] == old
    assert "mended" in cli("commands", "show", old).out
    lines = cli("trace", "command", old).out.splitlines()
    assert f"replayed as command {done['new_id']}" in lines[0]
    assert f"replay of command {old}" in lines[1]


@pytest.mark.parametrize("table", ["events", "commands"])
def test_a_row_with_a_place_in_a_line_and_an_event_run_again_in_place(
    cli: Cli, sql: Sql, table: str
) -> None:
    id_ = dead(sql, table, ordering_key="k")
    done = cli(table, "replay", id_, "--json").json["replayed"]
    assert done == [{"old_id": id_, "new_id": id_}]
    (row,) = sql(f"SELECT status, attempts, crashes, run_at, errors FROM inboxd.{table}")
    assert row["status"] in ("pending", "waiting")
    assert (row["attempts"], row["crashes"]) == (0, 0)
    assert row["errors"], "what went wrong before stays listed"
    assert row["run_at"] > datetime.now(UTC) - timedelta(minutes=1)
    assert sql(f"SELECT * FROM inboxd.{table}_history") == []
    assert [r["new_id"] for r in cli(table, "show", id_, "--json").json["replays"]] == [id_]


def test_a_deadline_that_has_passed_is_lifted(cli: Cli, sql: Sql) -> None:
    past, future = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)
    for deadline in (past, future):
        dead(sql, "commands", deadline=deadline)
        dead(sql, "commands", deadline=deadline, ordering_key="k")
    cli("commands", "replay", "--all")
    found = [row[0] for row in sql("SELECT deadline FROM inboxd.commands ORDER BY deadline")]
    assert found == [future, future, None, None]


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("action", ["replay", "dismiss"])
def test_what_is_no_dead_letter_is_refused_and_nothing_changed(
    cli: Cli, sql: Sql, table: str, action: str
) -> None:
    failed, pending = dead(sql, table), insert(sql, table)
    before = statuses(sql, table)
    result = cli(table, action, failed, pending)
    assert result.code == 1
    assert f"{pending} is pending: only failed can be" in result.err
    assert cli(table, action, failed, 4711).code == 1
    assert statuses(sql, table) == before
    assert audited(sql) == []
    assert sql("SELECT * FROM inboxd.replays") == []


def test_what_has_ended_is_refused_by_name(cli: Cli, sql: Sql) -> None:
    done, old, gone = insert(sql, "commands"), dead(sql, "commands"), dead(sql, "commands")
    succeed(sql, done)
    cli("commands", "replay", old)
    cli("commands", "dismiss", gone)
    for action in ("replay", "dismiss", "cancel"):
        assert f"{done} is succeeded" in cli("commands", action, done).err
        assert f"{old} was replayed as another row" in cli("commands", action, old).err
        assert f"{gone} is dismissed" in cli("commands", action, gone).err


def test_a_replayed_member_heals_its_batch_and_releases_what_waited(cli: Cli, sql: Sql) -> None:
    (batch,) = sql(
        """SELECT * FROM inboxd.send_batch('mails',
               '[{"type": "mail", "queue": "q"}, {"type": "mail", "queue": "q"}]',
               then_send => '{"type": "tell", "queue": "q"}')"""
    )
    first, second = (row[0] for row in sql("SELECT id FROM inboxd.commands WHERE type = 'mail'"))
    succeed(sql, first)
    fail(sql, "commands", second)
    sql("SELECT inboxd.fold_batch($1)", batch["id"])
    assert sql("SELECT status FROM inboxd.batches")[0][0] == "failed"
    done = cli("commands", "replay", "--batch", batch["new_batch_id"], "--json").json
    assert done == {"action": "replay", "count": 1}
    (new,) = sql("SELECT id, batch_id FROM inboxd.commands WHERE type = 'mail'")
    assert new["batch_id"] == batch["id"]
    assert sql("SELECT status FROM inboxd.commands WHERE type = 'tell'")[0][0] == "waiting"
    succeed(sql, new["id"])
    sql("SELECT inboxd.fold_batch($1)", batch["id"])
    (healed,) = sql("SELECT status, size, succeeded, failed FROM inboxd.batches")
    assert tuple(healed) == ("succeeded", 2, 2, 0)
    assert sql("SELECT status FROM inboxd.commands WHERE type = 'tell'")[0][0] == "pending"


def test_a_workflow_goes_on_from_the_step_that_failed(cli: Cli, sql: Sql) -> None:
    (flow,) = sql(
        """SELECT * FROM inboxd.send_workflow('seed',
               '[{"name": "one", "type": "s", "queue": "q"},
                 {"name": "two", "type": "s", "queue": "q", "after": "one"}]')"""
    )
    one, two = (row["id"] for row in sql("SELECT id FROM inboxd.commands ORDER BY id"))
    fail(sql, "commands", one)
    (done,) = cli("commands", "replay", one, "--json").json["replayed"]
    steps = sql(
        """SELECT s.name, c.id FROM inboxd.steps s JOIN inboxd.commands c
               ON c.command_id = s.member ORDER BY s.name"""
    )
    assert [tuple(step) for step in steps] == [("one", done["new_id"]), ("two", two)]
    assert statuses(sql)[two] == "waiting"
    succeed(sql, done["new_id"])
    assert statuses(sql)[two] == "pending", "what waited for the old row waited for the new one"
    assert flow["id"] == sql("SELECT batch_id FROM inboxd.commands")[0][0]


# ------------------------------------------------------------------------------ dismiss, cancel


@pytest.mark.parametrize("table", ["events", "commands"])
def test_dismissed_dead_letters_are_history(cli: Cli, sql: Sql, table: str) -> None:
    ids = [dead(sql, table), dead(sql, table)]
    result = cli(table, "dismiss", *ids, "--reason", "sent by hand", "--json")
    assert result.json == {"dismissed": ids}
    assert sql(f"SELECT * FROM inboxd.{table}") == []
    kept = sql(f"SELECT id, status, attempts, errors FROM inboxd.{table}_history ORDER BY id")
    assert [(row["id"], row["status"], row["attempts"]) for row in kept] == [
        (id_, "dismissed", 3) for id_ in ids
    ]
    assert all(row["errors"] for row in kept)
    (line,) = sql("SELECT * FROM inboxd.audit")
    assert (line["action"], line["reason"], line["count"]) == ("dismiss", "sent by hand", 2)
    assert line["target"] == f"{table} {ids[0]}, {ids[1]}"


def test_cancel_by_filter_ends_what_waits_and_asks_what_runs(cli: Cli, sql: Sql) -> None:
    pending, running, other, failed = (insert(sql, "commands", tenant=t) for t in "aaba")
    run(sql, running)
    fail(sql, "commands", failed)
    assert cli("commands", "cancel", "--tenant", "a", "--json").json["count"] == 2
    assert statuses(sql) == {
        pending: "cancelled",
        running: "running",
        other: "pending",
        failed: "failed",
    }
    asked = sql("SELECT id FROM inboxd.commands WHERE cancel_requested")
    assert [row[0] for row in asked] == [running]
    assert audited(sql) == [("cancel", "commands tenant=a", 2)]


def test_cancel_ends_what_waits_and_asks_what_runs(cli: Cli, sql: Sql) -> None:
    pending, waiting, running = (
        insert(sql, "commands"),
        insert(sql, "commands"),
        insert(sql, "commands"),
    )
    sql("UPDATE inboxd.commands SET status = 'waiting' WHERE id = $1", waiting)
    run(sql, running)
    result = cli("commands", "cancel", pending, waiting, running, "--json").json
    assert sorted(result["cancelled"]) == [pending, waiting]
    assert result["requested"] == [running]
    (hot,) = sql("SELECT id, status, cancel_requested FROM inboxd.commands")
    assert tuple(hot) == (running, "running", True)
    settled = sql("SELECT id, status, attempts FROM inboxd.commands_history ORDER BY id")
    assert [tuple(row) for row in settled] == [
        (pending, "cancelled", 0),
        (waiting, "cancelled", 0),
    ]
    assert sql("SELECT action, count FROM inboxd.audit")[0]["count"] == 3


def test_cancel_of_what_ended_changes_nothing(cli: Cli, sql: Sql) -> None:
    pending, failed = insert(sql, "commands"), insert(sql, "commands")
    fail(sql, "commands", failed)
    result = cli("commands", "cancel", pending, failed)
    assert result.code == 1
    assert f"{failed} is failed" in result.err
    assert cli("commands", "cancel", pending).code == 0
    again = cli("commands", "cancel", pending)
    assert (again.code, f"{pending} is cancelled" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("table", "action"),
    [("events", "replay"), ("commands", "replay"), ("commands", "dismiss"), ("commands", "cancel")],
)
def test_actions_wake_the_workers(
    cli: Cli, database: Database, sql: Sql, table: str, action: str
) -> None:
    id_ = insert(sql, table)
    if action != "cancel":
        fail(sql, table, id_)
    heard: list[str] = []

    async def act() -> None:
        async with database.connect() as connection:
            await connection.add_listener(f"inboxd_{table}", lambda *args: heard.append(args[2]))
            code = await anyio.to_thread.run_sync(lambda: cli(table, action, id_).code)
            assert code == 0
            await connection.execute("SELECT 1")  # notifications come with an answer at the latest

    anyio.run(act)
    assert set(heard) == {f"inboxd_{table}"}


def test_cancel_judges_the_status_after_a_claim_under_way(
    cli: Cli, database: Database, sql: Sql
) -> None:
    """The row is pending when cancel looks, and running when it has its lock."""
    id_ = insert(sql, "commands")

    async def race() -> None:
        async with database.connect() as worker, anyio.create_task_group() as group:
            claim = worker.transaction()
            await claim.start()
            await worker.execute(
                """UPDATE inboxd.commands SET status = 'running', worker_id = gen_random_uuid()
                    WHERE id = $1""",
                id_,
            )
            group.start_soon(anyio.to_thread.run_sync, cancel)
            await lock_awaited(database, who="inboxd cli")
            await claim.commit()

    def cancel() -> None:
        assert cli("commands", "cancel", id_, "--json").json == {
            "cancelled": [],
            "requested": [id_],
        }

    anyio.run(race)
    assert sql("SELECT status, cancel_requested FROM inboxd.commands")[0]["cancel_requested"]


# ------------------------------------------------------------------------------- all that match


@pytest.mark.parametrize(
    ("filters", "matching"),
    [
        (["--type", "x"], {0, 1, 2}),
        (["--queue", "q"], {2}),
        (["--tenant", "t"], {1, 3}),
        (["--error", "SMTP refused"], {3}),
        (["--group", "g2"], {1}),
        (["--group", "g"], {1}),
        (["--since", "1h"], {1, 2, 3}),
        (["--type", "x", "--tenant", "t"], {1}),
        (["--all"], {0, 1, 2, 3}),
    ],
)
def test_a_filter_meets_what_it_says(
    cli: Cli, sql: Sql, filters: list[str], matching: set[int]
) -> None:
    ids = [
        dead(sql, "commands", type="x"),
        dead(sql, "commands", "g2", type="x", tenant="t"),
        dead(sql, "commands", type="x", queue="q"),
        insert(sql, "commands", type="y", tenant="t"),
    ]
    insert(sql, "commands", type="x", queue="q", tenant="t")  # pending: never meant
    fail(sql, "commands", ids[3], error='[{"error": "SMTP Refused: 550"}]')
    sql("UPDATE inboxd.commands SET created_at = now() - interval '1 day' WHERE id = $1", ids[0])
    dry = cli("commands", "replay", *filters, "--dry-run", "--json").json
    assert dry["count"] == len(matching)
    assert [row["id"] for row in dry["sample"]] == [ids[n] for n in sorted(matching)]
    assert set(statuses(sql).values()) == {"failed", "pending"}
    assert audited(sql) == [], "a dry run does nothing"
    assert cli("commands", "replay", *filters, "--json").json["count"] == len(matching)
    replayed = {row["old_id"] for row in sql("SELECT old_id FROM inboxd.replays")}
    assert replayed == {ids[n] for n in matching}


def test_events_by_topic(cli: Cli, sql: Sql) -> None:
    wanted, _ = dead(sql, "events", topic="orders"), dead(sql, "events")
    assert cli("events", "replay", "--topic", "orders", "--json").json["count"] == 1
    assert [row[0] for row in sql("SELECT old_id FROM inboxd.replays")] == [wanted]


def test_many_pages_are_one_line_of_the_audit(cli: Cli, sql: Sql) -> None:
    sql(
        """INSERT INTO inboxd.commands (queue, type, status, fingerprint)
           SELECT 'q', 'many', 'failed', 'f' FROM generate_series(1, 1200)"""
    )
    sql("INSERT INTO inboxd.commands (queue, type) VALUES ('q', 'many')")
    result = cli("commands", "replay", "--type", "many", "--reason", "why")
    assert result.out == "Replayed: 1,200 commands\n"
    assert audited(sql) == [("replay", "commands type=many", 1200)]
    (counts,) = sql(
        """SELECT count(*) FILTER (WHERE status = 'pending'), count(DISTINCT replay_of)
             FROM inboxd.commands"""
    )
    assert tuple(counts) == (1201, 1200)


@pytest.mark.anyio
async def test_an_interrupted_action_leaves_a_true_audit(database: Database) -> None:
    await database.execute(
        """INSERT INTO inboxd.commands (queue, type, status)
           SELECT 'q', 'many', 'failed' FROM generate_series(1, 1200)"""
    )

    def stop(done: int) -> None:
        raise KeyboardInterrupt(done)

    with pytest.raises(KeyboardInterrupt, match="500"):
        await operator(
            database,
            lambda session: operations.act_on_all(
                session,
                "commands",
                "dismiss",
                Selection(type="many"),
                Terms(actor="me", on_page=stop),
            ),
        )
    assert await database.fetchval("SELECT count FROM inboxd.audit") == 500
    assert await database.fetchval("SELECT count(*) FROM inboxd.commands_history") == 500


@pytest.mark.anyio
async def test_a_rate_bounds_how_many_run_again_in_a_second(database: Database) -> None:
    await database.execute(
        """INSERT INTO inboxd.commands (queue, type, status)
           SELECT 'q', 'many', 'failed' FROM generate_series(1, 12)"""
    )
    steps: list[int] = []
    terms = Terms(actor="me", rate=5, on_page=steps.append)
    began = anyio.current_time()
    done = await operator(
        database,
        lambda session: operations.act_on_all(session, "commands", "replay", Selection(), terms),
    )
    assert (done, steps) == (12, [5, 10, 12])
    assert anyio.current_time() - began > 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay"], 2, "what is to be replayed?"),
        (["replay", "7", "--type", "x"], 2, "one of these"),
        (["dismiss", "--type", "x", "--all"], 2, "one of these"),
        (["replay", "--all", "--rate", "0"], 2, "a rate of 0 rows a second is not valid"),
        (["replay", "--all", "--rate", "-3"], 2, "a rate of -3"),
        (["cancel", "--batch", "4711"], 1, "there is no batch 4711"),
        (["cancel", "--batch", "x"], 2, "'x' is not a row number"),
        (["replay", "--since", "soon"], 2, "neither a duration"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_changed(
    cli: Cli, sql: Sql, arguments: list[str], code: int, said: str
) -> None:
    dead(sql, "commands", type="x")
    result = cli("commands", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert set(statuses(sql).values()) == {"failed"}
    assert audited(sql) == []


@pytest.mark.anyio
async def test_events_are_in_no_batch(database: Database) -> None:
    with pytest.raises(UsageError, match="events are in no batch"):
        await operator(
            database, lambda s: operations.preview(s, "events", "replay", Selection(batch=1))
        )


def test_at_a_terminal_it_asks_first(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands")
    refused = cli("commands", "replay", "--all", stdin="n\n", terminal=True)
    assert "1 command would be replayed" in refused.err
    assert set(statuses(sql).values()) == {"failed"}
    cli("commands", "replay", "--all", stdin="y\n", terminal=True)
    assert "pending" in statuses(sql).values()


# ----------------------------------------------------------------------------- groups, the audit


def test_ten_thousand_dead_letters_read_as_three_problems(cli: Cli, sql: Sql) -> None:
    sql(
        """INSERT INTO inboxd.commands (queue, type, status, fingerprint, errors)
           SELECT 'q', 'mail.' || n % 2, 'failed', CASE WHEN n % 10 = 0 THEN 'g2' ELSE 'g1' END,
                  jsonb_build_array(jsonb_build_object('error', 'SMTPError: mailbox ' || n))
             FROM generate_series(1, 10000) n"""
    )
    dead(sql, "events", "g3", type="order.paid")
    found = cli("failures", "list", "--json").json["groups"]
    assert [(g["fingerprint"], g["kind"], g["count"]) for g in found] == [
        ("g1", "command", 9000),
        ("g2", "command", 1000),
        ("g3", "event", 1),
    ]
    assert found[0]["types"] == {"mail.0": 4000, "mail.1": 5000}
    assert found[0]["error"] == "SMTPError: mailbox 9999"
    assert found[0]["first_at"] <= found[0]["last_at"]
    out = cli("failures", "list").out
    assert "9,000" in out
    shown = cli("failures", "show", "g1")
    assert "mail.1 (5,000), mail.0 (4,000)" in shown.out
    assert "inboxd commands replay --group g1" in shown.out
    assert len(cli("failures", "show", "g2", "--json").json["groups"][0]["sample"]) == 10
    assert cli("commands", "dismiss", "--group", "g1", "--json").json["count"] == 9000
    left = cli("failures", "list", "--json").json["groups"]
    assert [g["fingerprint"] for g in left] == ["g2", "g3"]
    gone = cli("failures", "show", "g1")
    assert (gone.code, "no dead letter is in group 'g1'" in gone.err) == (1, True)


def test_a_group_is_named_by_the_beginning_of_its_name(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands", "5f2c1e0d9a7b3344")
    dead(sql, "commands", "5f2c1e0d9a7b3344")
    dead(sql, "commands", "5fa0000000000000")
    dead(sql, "events", "77aa000000000000")
    shown = cli("failures", "show", "5f2").out
    assert "Group 5f2c1e0d9a7b3344" in shown
    assert "--group 5f2c1e0d9a7b3344" in shown
    assert cli("failures", "show", "7").code == 0
    several = cli("commands", "replay", "--group", "5f")
    assert several.code == 2
    assert "'5f', such as 5f2c1e0d9a7b3344, 5fa0000000000000" in several.err
    nobody = cli("commands", "replay", "--group", "60", "--dry-run")
    assert (nobody.code, "no dead letter is in group '60'" in nobody.err) == (1, True)
    assert cli("commands", "replay", "--group", "5f2", "--json").json["count"] == 2
    assert audited(sql) == [("replay", "commands group=5f2c1e0d9a7b3344", 2)]


def test_rows_that_are_named_may_be_tried_dry_and_at_a_rate(cli: Cli, sql: Sql) -> None:
    first, second = dead(sql, "commands", type="x"), dead(sql, "commands", type="x")
    waits = insert(sql, "commands", type="x")
    dry = cli("commands", "replay", first, second, "--dry-run", "--rate", "5")
    assert dry.code == 0
    assert "2 commands would be replayed." in dry.err
    found = cli("commands", "cancel", waits, "--dry-run", "--json").json
    assert (found["action"], found["count"], found["sample"][0]["id"]) == ("cancel", 1, waits)
    refused = cli("commands", "dismiss", first, waits, "--dry-run")
    assert (refused.code, f"{waits} is pending" in refused.err) == (1, True)
    assert audited(sql) == []
    assert statuses(sql) == {first: "failed", second: "failed", waits: "pending"}
    assert cli("commands", "replay", first, "--rate", "5").code == 0


def test_the_audit_lists_who_did_what(cli: Cli, sql: Sql) -> None:
    first, second = dead(sql, "commands"), dead(sql, "events")
    cli("commands", "dismiss", first, "--reason", "sent by hand")
    cli("events", "replay", second)
    found = cli("audit", "--json").json
    assert [(a["action"], a["target"], a["count"]) for a in found["audit"]] == [
        ("replay", f"events {second}", 1),
        ("dismiss", f"commands {first}", 1),
    ]
    assert found["next"] is None
    for wanted in (
        ["--action", "dismiss"],
        ["--target", f"commands {first}"],
        ["--after", found["audit"][0]["id"]],
        ["--actor", getpass.getuser().upper(), "--action", "dismiss", "--since", "1h"],
    ):
        (line,) = cli("audit", *wanted, "--json").json["audit"]
        assert line["reason"] == "sent by hand"
    assert cli("audit", "--actor", "nobody", "--json").json["audit"] == []
    assert "sent by hand" in cli("audit").out


def test_an_action_that_there_is_not_is_refused(cli: Cli) -> None:
    wrong = cli("audit", "--action", "replai")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'replai' is not a valid action; did you mean 'replay'?" in wrong.err
    far = cli("audit", "--action", "zzz", "--json")
    assert (far.code, far.out) == (2, "")
    assert "valid are cancel, close, dismiss, drop, erase, " in far.err
    for right in ("erase", "prioritize to -5", "reschedule"):
        assert cli("audit", "--action", right, "--json").json["audit"] == []


# ------------------------------------------------------------------------------------ two at once


async def _both(database: Database, *acts: Callable[[Session], Awaitable[Any]]) -> list[Any]:
    """Let the acts begin while the row is locked, so that they meet; what each came to."""
    ended: list[Any] = []

    async def one(act: Callable[[Session], Awaitable[Any]]) -> None:
        try:
            ended.append(await operator(database, act))
        except Conflict as error:
            ended.append(error)

    async with database.connect() as lock, anyio.create_task_group() as group:
        held = lock.transaction()
        await held.start()
        await lock.execute("SELECT FROM inboxd.commands FOR UPDATE")
        for act in acts:
            group.start_soon(one, act)
        await lock_awaited(database, len(acts))
        await held.commit()
    return ended


def _replay(id_: int) -> Callable[[Session], Awaitable[Any]]:
    return lambda session: operations.act(session, "commands", "replay", [id_], actor="me")


def _dismiss(id_: int) -> Callable[[Session], Awaitable[Any]]:
    return lambda session: operations.act(session, "commands", "dismiss", [id_], actor="you")


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("other", [_replay, _dismiss])
def test_of_two_actions_on_a_dead_letter_at_once_one_is_refused(
    database: Database, sql: Sql, other: Any, key: str | None
) -> None:
    id_ = dead(sql, "commands", ordering_key=key)
    ended = anyio.run(_both, database, _replay(id_), other(id_))
    assert sorted(isinstance(each, Conflict) for each in ended) == [False, True]
    assert len(audited(sql)) == 1
    replays = sql("SELECT * FROM inboxd.replays")
    if audited(sql)[0][0] == "dismiss":
        assert statuses(sql) == {id_: "dismissed"}
        assert replays == []
    else:
        assert len(replays) == 1
        assert len(sql("SELECT * FROM inboxd.commands")) == 1


def test_a_cancel_that_meets_a_settlement_is_refused(database: Database, sql: Sql) -> None:
    """The row runs when cancel looks, and has succeeded when it has its lock."""
    id_ = insert(sql, "commands")
    run(sql, id_)

    async def cancel(refused: list[str]) -> None:
        try:
            await operator(
                database, lambda s: operations.act(s, "commands", "cancel", [id_], actor="me")
            )
        except Conflict as error:
            refused.append(str(error))

    async def race() -> list[str]:
        refused: list[str] = []
        async with database.connect() as worker, anyio.create_task_group() as group:
            settle = worker.transaction()
            await settle.start()
            await worker.execute(
                "select inboxd.settle_command($1, 1, $2, 0.1)", id_, uuid.UUID(int=1)
            )
            group.start_soon(cancel, refused)
            await lock_awaited(database)
            await settle.commit()
        return refused

    (said,) = anyio.run(race)
    assert f"{id_} is succeeded" in said
    assert audited(sql) == []


def test_an_edge_added_while_its_row_is_replayed_follows_the_new_row(
    database: Database, sql: Sql
) -> None:
    """Whoever adds one locks the row first; the replay sees it once it has the lock."""
    id_ = dead(sql, "commands")
    key = sql("SELECT command_id FROM inboxd.commands")[0][0]
    waiting = uuid.uuid4()

    async def race() -> None:
        async with database.connect() as adder, anyio.create_task_group() as group:
            add = adder.transaction()
            await add.start()
            await adder.execute("UPDATE inboxd.commands SET awaited = true WHERE id = $1", id_)
            group.start_soon(operator, database, _replay(id_))
            await lock_awaited(database)
            await adder.execute(
                "INSERT INTO inboxd.dependencies (needs, waiting) VALUES ($1, $2)", key, waiting
            )
            await add.commit()

    anyio.run(race)
    (new,) = sql("SELECT command_id, awaited FROM inboxd.commands WHERE replay_of = $1", id_)
    assert new["awaited"]
    assert [tuple(e) for e in sql("SELECT needs, waiting FROM inboxd.dependencies")] == [
        (new["command_id"], waiting)
    ]


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("status", ["pending", "waiting", "running"])
def test_the_statements_themselves_leave_what_is_no_dead_letter(
    database: Database, sql: Sql, table: Any, status: str
) -> None:
    """Promise 8: not only the code that calls them."""
    id_ = insert(sql, table)
    if status == "running" and table == "commands":
        run(sql, id_)
    elif status == "waiting":
        sql(f"UPDATE inboxd.{table} SET status = 'waiting' WHERE id = $1", id_)
    before = statuses(sql, table)

    async def act(session: Session) -> None:
        assert not await store.replay_in_place(session, table, [id_], "me", None)
        assert not await store.dismiss(session, table, [id_])
        if table == "commands":
            assert not await store.replay_as_new(session, [id_], "me", None)

    anyio.run(operator, database, act)
    assert statuses(sql, table) == before


def test_what_is_sent_after_a_replayed_command_waits_for_its_successor(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands")
    key = sql("SELECT command_id FROM inboxd.commands")[0][0]
    (first,) = cli("commands", "replay", key, "--json").json["replayed"]
    fail(sql, "commands", first["new_id"])
    (second,) = cli("commands", "replay", first["new_id"], "--json").json["replayed"]
    sql("""SELECT inboxd.send_after($1, '{"type": "next", "queue": "q"}')""", key)
    assert sql("SELECT status FROM inboxd.commands WHERE type = 'next'")[0][0] == "waiting"
    succeed(sql, second["new_id"])
    assert sql("SELECT status FROM inboxd.commands WHERE type = 'next'")[0][0] == "pending"
    sql("""SELECT inboxd.send_after($1, '{"type": "late", "queue": "q"}')""", key)
    assert sql("SELECT status FROM inboxd.commands WHERE type = 'late'")[0][0] == "pending"
