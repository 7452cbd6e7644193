"""Dismiss and cancel, and actions on all matching rows: changes, refusals, notifications."""

import anyio
import pytest

from inboxd import operations
from inboxd.errors import UsageError
from inboxd.operations import Selection, Terms
from tests.cli.conftest import Cli
from tests.cli.dead_letters import Sql, audited, dead, fail, insert, operator, run, statuses
from tests.support import Database
from tests.support.locks import lock_awaited


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


def test_cancel_by_filter_ends_waiting_and_asks_running_commands(cli: Cli, sql: Sql) -> None:
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


def test_cancel_ends_waiting_and_asks_running_commands(cli: Cli, sql: Sql) -> None:
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


def test_cancel_of_ended_commands_changes_nothing(cli: Cli, sql: Sql) -> None:
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
            await connection.execute("SELECT 1")  # notifications arrive at the latest with a result

    anyio.run(act)
    assert set(heard) == {f"inboxd_{table}"}


def test_cancel_uses_the_status_after_a_concurrent_claim(
    cli: Cli, database: Database, sql: Sql
) -> None:
    """The row is pending when cancel reads it first, and running when cancel has its lock."""
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


# ---------------------------------------------------------------------------- all matching rows


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
def test_filter_selects_only_its_rows(
    cli: Cli, sql: Sql, filters: list[str], matching: set[int]
) -> None:
    ids = [
        dead(sql, "commands", type="x"),
        dead(sql, "commands", "g2", type="x", tenant="t"),
        dead(sql, "commands", type="x", queue="q"),
        insert(sql, "commands", type="y", tenant="t"),
    ]
    insert(sql, "commands", type="x", queue="q", tenant="t")  # pending: no action applies to it
    fail(sql, "commands", ids[3], error='[{"error": "SMTP Refused: 550"}]')
    sql("UPDATE inboxd.commands SET created_at = now() - interval '1 day' WHERE id = $1", ids[0])
    dry = cli("commands", "replay", *filters, "--dry-run", "--json").json
    assert dry["count"] == len(matching)
    assert [row["id"] for row in dry["sample"]] == [ids[n] for n in sorted(matching)]
    assert set(statuses(sql).values()) == {"failed", "pending"}
    assert audited(sql) == [], "a dry run changes nothing"
    assert cli("commands", "replay", *filters, "--json").json["count"] == len(matching)
    replayed = {row["old_id"] for row in sql("SELECT old_id FROM inboxd.replays")}
    assert replayed == {ids[n] for n in matching}


def test_replay_of_events_by_topic(cli: Cli, sql: Sql) -> None:
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
async def test_interrupted_action_leaves_a_correct_audit(database: Database) -> None:
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
async def test_rate_limits_replays_per_second(database: Database) -> None:
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
        (["replay"], 2, "choose the rows to be replayed"),
        (["replay", "7", "--type", "x"], 2, "in one way"),
        (["dismiss", "--type", "x", "--all"], 2, "in one way"),
        (["replay", "--all", "--rate", "0"], 2, "a rate of 0 rows a second is not valid"),
        (["replay", "--all", "--rate", "-3"], 2, "a rate of -3"),
        (["cancel", "--batch", "4711"], 1, "there is no batch 4711"),
        (["cancel", "--batch", "x"], 2, "'x' is not a row number"),
        (["replay", "--since", "soon"], 2, "neither a duration"),
    ],
)
def test_invalid_options_are_refused(
    cli: Cli, sql: Sql, arguments: list[str], code: int, said: str
) -> None:
    dead(sql, "commands", type="x")
    result = cli("commands", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert set(statuses(sql).values()) == {"failed"}
    assert audited(sql) == []


@pytest.mark.anyio
async def test_selection_of_events_by_batch_is_refused(database: Database) -> None:
    with pytest.raises(UsageError, match="an event cannot be in a batch"):
        await operator(
            database, lambda s: operations.preview(s, "events", "replay", Selection(batch=1))
        )


def test_action_at_a_terminal_asks_for_confirmation(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands")
    refused = cli("commands", "replay", "--all", stdin="n\n", terminal=True)
    assert "1 command would be replayed" in refused.err
    assert set(statuses(sql).values()) == {"failed"}
    cli("commands", "replay", "--all", stdin="y\n", terminal=True)
    assert "pending" in statuses(sql).values()
