"""`replay`: dead letters run again in their place, and rows that waited for them follow."""

import getpass
import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Cli
from tests.cli.dead_letters import Sql, audited, dead, fail, insert, run, statuses


def succeed(sql: Sql, id_: int) -> None:
    """Run a command, and settle it as a worker does."""
    run(sql, id_)
    sql(
        "select inboxd.settle_command($1, 1, '00000000-0000-0000-0000-000000000001', 0.1)",
        id_,
    )


# -------------------------------------------------------------------------------------- replay


def test_replay_makes_a_new_row_in_place_of_a_dead_letter(cli: Cli, sql: Sql) -> None:
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


def test_replay_with_another_payload(cli: Cli, sql: Sql) -> None:
    old = dead(sql, "commands", payload='{"n": 1}')
    refused = cli("commands", "replay-with", str(old), '{"n": ')
    assert (refused.code, "is not valid JSON" in refused.err) == (2, True)
    given = (str(old), '{"n": 2}', "--reason", "mended", "--json")
    (done,) = cli("commands", "replay-with", *given).json["replayed"]
    tables = ("commands", "commands_history")
    payloads = [json.loads(sql(f"SELECT payload FROM inboxd.{each}")[0][0]) for each in tables]
    assert payloads == [{"n": 2}, {"n": 1}]
    assert sql("SELECT replay_of FROM inboxd.commands")[0][0] == old == done["old_id"]
    assert audited(sql)[-1] == ("replay to another payload", f"commands {old}", 1)
    exact = '{"big": 12345678901234567890123, "one": 1.0, "long": 0.10000000000000000001}'
    cli("commands", "replay-with", str(dead(sql, "commands")), exact)
    assert exact in {row[0] for row in sql("SELECT payload::text FROM inboxd.commands")}
    ordered = dead(sql, "commands", ordering_key="k")
    assert "has an ordering key" in cli("commands", "replay-with", str(ordered), "{}").err


def test_both_rows_show_the_replay(cli: Cli, sql: Sql) -> None:
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
def test_event_or_command_with_a_key_runs_again_in_place(cli: Cli, sql: Sql, table: str) -> None:
    id_ = dead(sql, table, ordering_key="k")
    done = cli(table, "replay", id_, "--json").json["replayed"]
    assert done == [{"old_id": id_, "new_id": id_}]
    (row,) = sql(f"SELECT status, attempts, crashes, run_at, errors FROM inboxd.{table}")
    assert row["status"] in ("pending", "waiting")
    assert (row["attempts"], row["crashes"]) == (0, 0)
    assert row["errors"], "earlier errors stay listed"
    assert row["run_at"] > datetime.now(UTC) - timedelta(minutes=1)
    assert sql(f"SELECT * FROM inboxd.{table}_history") == []
    assert [r["new_id"] for r in cli(table, "show", id_, "--json").json["replays"]] == [id_]


def test_replay_removes_a_passed_deadline(cli: Cli, sql: Sql) -> None:
    past, future = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(hours=1)
    for deadline in (past, future):
        dead(sql, "commands", deadline=deadline)
        dead(sql, "commands", deadline=deadline, ordering_key="k")
    cli("commands", "replay", "--all")
    found = [row[0] for row in sql("SELECT deadline FROM inboxd.commands ORDER BY deadline")]
    assert found == [future, future, None, None]


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("action", ["replay", "dismiss"])
def test_action_on_a_pending_row_is_refused(cli: Cli, sql: Sql, table: str, action: str) -> None:
    failed, pending = dead(sql, table), insert(sql, table)
    before = statuses(sql, table)
    result = cli(table, action, failed, pending)
    assert result.code == 1
    assert f"{pending} is pending: only failed can be" in result.err
    assert cli(table, action, failed, 4711).code == 1
    assert statuses(sql, table) == before
    assert audited(sql) == []
    assert sql("SELECT * FROM inboxd.replays") == []


def test_actions_on_ended_rows_are_refused(cli: Cli, sql: Sql) -> None:
    done, old, gone = insert(sql, "commands"), dead(sql, "commands"), dead(sql, "commands")
    succeed(sql, done)
    cli("commands", "replay", old)
    cli("commands", "dismiss", gone)
    for action in ("replay", "dismiss", "cancel"):
        assert f"{done} is succeeded" in cli("commands", action, done).err
        assert f"{old} was replayed as another row" in cli("commands", action, old).err
        assert f"{gone} is dismissed" in cli("commands", action, gone).err


def test_replayed_member_completes_its_batch_and_releases_the_next_command(
    cli: Cli, sql: Sql
) -> None:
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


def test_replay_continues_a_workflow_from_its_failed_step(cli: Cli, sql: Sql) -> None:
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
    assert statuses(sql)[two] == "pending", "the second step waited for the new row"
    assert flow["id"] == sql("SELECT batch_id FROM inboxd.commands")[0][0]


def test_command_sent_after_a_replayed_one_waits_for_the_new_row(cli: Cli, sql: Sql) -> None:
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
