"""Lists of rows, single rows, and actions that change time or priority."""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from inboxd.model.lineage import uuid7
from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]


def emit(sql: Sql, type_: str = "a.b", **values: Any) -> int:
    return _insert(sql, "events", {"type": type_, **values})


def send(sql: Sql, type_: str = "c.d", **values: Any) -> int:
    return _insert(sql, "commands", {"type": type_, "queue": "default", **values})


def _insert(sql: Sql, table: str, values: dict[str, Any]) -> int:
    columns = ", ".join(values)
    marks = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    query = f"INSERT INTO inboxd.{table} ({columns}) VALUES ({marks}) RETURNING id"
    id_: int = sql(query, *values.values())[0]["id"]
    return id_


def fail(sql: Sql, table: str, id_: int) -> None:
    """Turn a row into a dead letter, as a worker does."""
    sql(
        f"""UPDATE inboxd.{table} SET status = 'failed', attempts = 3, crashes = 1, errors =
            '[{{"at": "2026-01-01T00:00:00Z", "attempt": 3, "error": "ValueError: no"}}]'
            WHERE id = $1""",
        id_,
    )


def run(sql: Sql, id_: int) -> None:
    """Claim a command, as a worker does."""
    sql(
        """UPDATE inboxd.commands SET status = 'running', worker_id = gen_random_uuid()
            WHERE id = $1""",
        id_,
    )


def settle(sql: Sql, id_: int) -> None:
    """Move an event to history."""
    sql(
        """WITH gone AS (DELETE FROM inboxd.events WHERE id = $1 RETURNING *)
           INSERT INTO inboxd.events_history
                  (id, event_id, topic, mode, type, schema_version, status, attempts, crashes,
                   run_at, occurred_at, created_at, updated_at, finished_at, duration, payload)
           SELECT id, event_id, topic, mode, type, schema_version, 'succeeded', 1, crashes,
                  run_at, occurred_at, created_at, now(), now(), interval '250 ms', payload
             FROM gone""",
        id_,
    )


# --------------------------------------------------------------------------------------- lists


def test_list_is_newest_first_and_pages_by_key(cli: Cli, sql: Sql) -> None:
    ids = [emit(sql) for _ in range(5)]
    settle(sql, ids[1])
    first = cli("events", "list", "--limit", 2, "--json").json
    second = cli("events", "list", "--limit", 2, "--after", first["next"], "--json").json
    third = cli("events", "list", "--limit", 2, "--after", second["next"], "--json").json
    listed = [row["id"] for page in (first, second, third) for row in page["events"]]
    assert listed == ids[::-1]
    assert third["next"] is None


def test_list_filters(cli: Cli, sql: Sql) -> None:
    wanted = emit(sql, "x.y", tenant="t1", topic="orders")
    emit(sql, "x.y", tenant="t2", topic="orders")
    emit(sql, "x.y", tenant="t1", topic="others")
    emit(sql, "x.z", tenant="t1", topic="orders")
    old = emit(sql, "x.y", tenant="t1", topic="orders")
    sql("ALTER TABLE inboxd.events DISABLE TRIGGER USER")
    sql("UPDATE inboxd.events SET created_at = now() - interval '3 hours' WHERE id = $1", old)
    found = cli(
        *("events", "list", "--type", "x.y", "--tenant", "t1", "--topic", "orders"),
        *("--since", "2h", "--json"),
    ).json
    assert [row["id"] for row in found["events"]] == [wanted]


@pytest.mark.parametrize("table", ["events", "commands"])
def test_first_row_of_a_story_shows_its_own_id(cli: Cli, sql: Sql, table: str) -> None:
    id_ = emit(sql) if table == "events" else send(sql)
    own = str(sql(f"SELECT {table[:-1]}_id FROM inboxd.{table}")[0][0])
    assert cli(table, "list", "--json").json[table][0]["correlation_id"] == own
    assert cli(table, "show", id_, "--json").json["correlation_id"] == own


def test_list_by_queue_and_status(cli: Cli, sql: Sql) -> None:
    send(sql, queue="slow")
    failed, running = send(sql), send(sql)
    fail(sql, "commands", failed)
    run(sql, running)
    found = cli("commands", "list", "--queue", "default", "--status", "failed", "--json").json
    assert [row["id"] for row in found["commands"]] == [failed]
    both = cli("commands", "list", "--status", "failed", "--status", "running", "--json").json
    assert [row["id"] for row in both["commands"]] == [running, failed]


def test_list_of_settled_rows_reads_history(cli: Cli, sql: Sql) -> None:
    settled, hot = emit(sql), emit(sql)
    settle(sql, settled)
    done = cli("events", "list", "--status", "succeeded", "--json").json["events"]
    assert [row["id"] for row in done] == [settled]
    assert done[0]["duration"] == 0.25
    waits = cli("events", "list", "--status", "pending", "--json").json["events"]
    assert [row["id"] for row in waits] == [hot]


def test_list_shows_no_payload_and_a_table_for_people(cli: Cli, sql: Sql) -> None:
    emit(sql, "a.b\x1b[31m", payload='{"secret": 1}')
    for result in (cli("events", "list", "--json"), cli("events", "list")):
        assert result.code == 0
        assert "secret" not in result.out
    assert "a.b\ufffd[31m" in cli("events", "list").out


def test_replayed_dead_letter_shows_its_new_row(cli: Cli, sql: Sql) -> None:
    old, other = send(sql), send(sql)
    for id_ in (old, other):
        fail(sql, "commands", id_)
    new = cli("commands", "replay", old, "--json").json["replayed"][0]["new_id"]
    assert new != old
    listed = {row["id"]: row for row in cli("commands", "list", "--json").json["commands"]}
    assert {id_: row["replayed_as"] for id_, row in listed.items()} == {
        old: new,
        other: None,
        new: None,
    }
    assert f"failed, replayed as {new}" in cli("commands", "list").out


def test_error_of_a_succeeded_row_is_marked_as_earlier(cli: Cli, sql: Sql) -> None:
    id_ = send(sql)
    sql(
        """UPDATE inboxd.commands SET status = 'running', worker_id = gen_random_uuid(), errors =
            '[{"at": "2026-01-01T00:00:00Z", "attempt": 1, "error": "Retry: it is busy"}]'"""
    )
    sql(
        """WITH gone AS (DELETE FROM inboxd.commands WHERE id = $1 RETURNING *)
           INSERT INTO inboxd.commands_history
                  (id, command_id, queue, type, schema_version, status, attempts, crashes, run_at,
                   created_at, updated_at, finished_at, duration, payload, errors, priority, fence,
                   cancel_requested, origin_kind, awaited)
           SELECT id, command_id, queue, type, schema_version, 'succeeded', 2, crashes, run_at,
                  created_at, now(), now(), interval '250 ms', payload, errors, priority, fence,
                  cancel_requested, origin_kind, awaited FROM gone""",
        id_,
    )
    assert "\t(before) Retry: it is busy" in cli("commands", "list").out
    assert cli("commands", "list", "--json").json["commands"][0]["error"] == "Retry: it is busy"


def test_equal_errors_are_shown_once_and_the_newest_first(cli: Cli, sql: Sql) -> None:
    """Equal errors of fifteen attempts do not fill the screen."""
    id_ = send(sql)
    errors = [
        {
            "at": f"2026-01-01T00:00:{number:02}Z",
            "attempt": number,
            "worker": f"w{number % 2}",
            "error": "ValueError: no" if number > 1 else "KeyError: 'yes'",
            "traceback": "  File plugin.py, line 7",
        }
        for number in range(1, 16)
    ]
    sql(
        "UPDATE inboxd.commands SET status = 'failed', attempts = 15, errors = $2 WHERE id = $1",
        id_,
        json.dumps(errors),
    )
    shown = cli("commands", "show", id_)
    assert shown.out.count("Error at") == 2
    assert shown.out.count("plugin.py") == 2
    assert shown.out.index("ValueError") < shown.out.index("KeyError")
    assert "2 to 15, 14 times" in shown.out
    assert "the same since 2026-01-01 00:00:02" in shown.out
    assert [each["attempt"] for each in cli("commands", "show", id_, "--json").json["errors"]] == [
        *range(1, 16)
    ], "JSON has all of them"


def test_show_tells_how_to_see_the_payload(cli: Cli, sql: Sql) -> None:
    """An error names the wrong field, but not its value, which may be a secret."""
    id_ = send(sql, payload='{"status": "FINISHED"}')
    sql(
        """UPDATE inboxd.commands SET status = 'failed', attempts = 1, fingerprint = 'f1', errors =
           '[{"at": "2026-01-01T00:00:00Z", "attempt": 1, "path": "status",
              "error": "PayloadError: status: Input should be live"}]' WHERE id = $1""",
        id_,
    )
    shown = cli("commands", "show", id_)
    assert f"To see its payload: inboxd commands show {id_} --payload" in shown.err
    assert "the values at status, which errors do not contain" in shown.err
    assert "FINISHED" not in shown.out + shown.err
    with_payload = cli("commands", "show", id_, "--payload")
    assert "FINISHED" in with_payload.out
    assert "--payload" not in with_payload.err
    assert f"inboxd commands show {id_} --payload" in cli("failures", "show", "f1").out
    assert cli("commands", "show", id_, "--json").err == ""


def test_bad_filters_are_usage_errors(cli: Cli) -> None:
    assert cli("events", "list", "--since", "yesterday").code == 2
    assert cli("events", "list", "--status", "lost").code == 2
    assert cli("events", "list", "--limit", 0).code == 2


# ---------------------------------------------------------------------------------------- show


def test_show_by_number_and_by_uuid(cli: Cli, sql: Sql) -> None:
    id_ = emit(sql, payload='{"n": 7}', correlation_id="story")
    shown = cli("events", "show", id_, "--json").json
    assert (shown["id"], shown["status"], shown["correlation_id"]) == (id_, "pending", "story")
    assert "payload" not in shown
    again = cli("events", "show", shown["event_id"], "--payload", "--json").json
    assert (again["id"], again["payload"]) == (id_, {"n": 7})


def test_show_names_the_other_topics_of_an_event(cli: Cli, sql: Sql) -> None:
    event = uuid.uuid4()
    ids = [emit(sql, event_id=event, topic=topic) for topic in ("billing", "mail")]
    shown = cli("events", "show", str(event), "--json").json
    assert shown["id"] == ids[1]
    assert shown["elsewhere"] == [{"id": ids[0], "topic": "billing", "status": "pending"}]
    out = cli("events", "show", ids[0]).out
    assert "also in" in out
    assert "mail" in out
    assert "also in" not in cli("events", "show", emit(sql)).out


def test_show_finds_settled_rows_and_their_bodies(cli: Cli, sql: Sql) -> None:
    large = '{"text": "' + "x" * 5000 + '"}'
    id_ = emit(sql, payload=large)
    shown = cli("events", "show", id_, "--payload", "--json").json
    assert len(shown["payload"]["text"]) == 5000
    small = emit(sql)
    settle(sql, small)
    assert cli("events", "show", small, "--json").json["duration"] == 0.25


def test_show_names_the_retry_rule_and_the_remaining_attempts(cli: Cli, sql: Sql) -> None:
    said = [{"handler": "a.b", "policy": "fixed, attempts 3", "source": "plugin a", "attempts": 3}]
    declare = "INSERT INTO inboxd.declared_types (kind, type, retry) VALUES ($1, 'test.ledger', $2)"
    sql(declare, "command", json.dumps(said))
    two = [*said, {"handler": "c.d", "policy": "linear", "source": "default", "attempts": 5}]
    sql(declare, "event", json.dumps(two))
    id_ = send(sql, "test.ledger", max_attempts=9)
    sql("UPDATE inboxd.commands SET attempts = 2 WHERE id = $1", id_)
    (rule,) = cli("commands", "show", id_, "--json").json["retry"]
    assert (rule["handler"], rule["source"]) == ("a.b", "plugin a")
    assert (rule["made"], rule["left"]) == (2, 7)
    assert rule["policy"] == "fixed, attempts 3; for this row: attempts 9"
    assert rule["next_at"] is not None
    out = cli("commands", "show", id_).out
    assert "plugin a" in out
    rules = cli("events", "show", emit(sql, "test.ledger"), "--json").json["retry"]
    assert [(each["handler"], each["left"]) for each in rules] == [("a.b", 3), ("c.d", 5)]
    (unknown,) = cli("commands", "show", send(sql, "not.here"), "--json").json["retry"]
    assert (unknown["handler"], unknown["source"]) == (None, "default")
    assert unknown["policy"].startswith("exponential, attempts 15")


def test_show_lists_the_children_of_a_settled_row(cli: Cli, sql: Sql) -> None:
    parent = uuid7()
    id_ = emit(sql, event_id=parent)
    settle(sql, id_)
    child = send(sql, causation_id=parent, origin_kind="event", origin_id=id_)
    send(sql, causation_id=uuid.uuid4())
    shown = cli("events", "show", id_, "--json").json
    assert [(row["id"], row["status"]) for row in shown["children"]] == [(child, "pending")]
    assert f"event {id_}" in cli("commands", "show", child).out


def test_show_for_people_has_errors_and_lineage(cli: Cli, sql: Sql) -> None:
    id_ = emit(sql, correlation_id="story")
    fail(sql, "events", id_)
    out = cli("events", "show", id_, "--payload").out
    for text in ("failed", "ValueError: no", "story", "retry rule"):
        assert text in out


@pytest.mark.parametrize("table", ["events", "commands"])
def test_unknown_and_malformed_ids(cli: Cli, table: str) -> None:
    unknown = cli(table, "show", 4711)
    assert (unknown.code, unknown.out) == (1, "")
    assert "4711" in unknown.err
    assert cli(table, "show", uuid.uuid4()).code == 1
    for malformed in ("abc", "-1", str(2**63), "1.5"):
        assert cli(table, "show", "--", malformed).code == 2


# ------------------------------------------------------------------------------- time, priority


@pytest.mark.parametrize("table", ["events", "commands"])
def test_reschedule_changes_the_time_and_is_audited(cli: Cli, sql: Sql, table: str) -> None:
    insert = emit if table == "events" else send
    ids = [insert(sql), insert(sql)]
    result = cli(table, "reschedule", *ids, "--at", "2100-01-02T03:04:05Z", "--reason", "later")
    assert result.out == f"Rescheduled to 2100-01-02 03:04:05Z: {table[:-1]} {ids[0]}, {ids[1]}\n"
    times = sql(f"SELECT DISTINCT run_at FROM inboxd.{table}")
    assert [row[0] for row in times] == [datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)]
    (audit,) = sql("SELECT * FROM inboxd.audit")
    assert (audit["action"], audit["target"], audit["reason"], audit["count"]) == (
        "reschedule to 2100-01-02T03:04:05Z",
        f"{table} {ids[0]}, {ids[1]}",
        "later",
        2,
    )
    assert cli(table, "reschedule", ids[0], "--at", "2h", "--json").json["rescheduled"] == [ids[0]]
    soon = sql(f"SELECT run_at - now() FROM inboxd.{table} WHERE id = $1", ids[0])[0][0]
    assert timedelta(hours=1, minutes=58) < soon < timedelta(hours=2)


def test_past_time_becomes_now(cli: Cli, sql: Sql) -> None:
    """A time in the past would be before the cursor of its lane."""
    id_ = send(sql, run_at=datetime(2100, 1, 1, tzinfo=UTC))
    assert cli("commands", "reschedule", id_, "--at", "2000-01-01T00:00:00Z").code == 0
    age = sql("SELECT now() - run_at FROM inboxd.commands")[0][0]
    assert timedelta(0) <= age < timedelta(minutes=1)
    assert cli("commands", "reschedule", id_, "--at", "now").code == 0


def test_prioritize_moves_a_command_to_another_lane(cli: Cli, sql: Sql) -> None:
    id_ = send(sql)
    assert (
        cli("commands", "prioritize", id_, "--priority", "-5").out
        == f"Priority -5: command {id_}\n"
    )
    assert sql("SELECT priority FROM inboxd.commands")[0][0] == -5
    (audit,) = sql("SELECT action, count FROM inboxd.audit")
    assert tuple(audit) == ("prioritize to -5", 1)
    assert len(cli("audit", "--action", "prioritize", "--json").json["audit"]) == 1
    assert cli("audit", "--action", "replay", "--json").json["audit"] == []


@pytest.mark.parametrize(
    "action", [("reschedule", "--at", "1h"), ("prioritize", "--priority", "1")], ids=lambda a: a[0]
)
def test_running_and_ended_rows_cannot_be_moved(
    cli: Cli, sql: Sql, action: tuple[str, str, str]
) -> None:
    """The refusal names the row, and the other row of the call stays unchanged."""
    name, *options = action
    beside, dead, runs = send(sql), send(sql), send(sql)
    fail(sql, "commands", dead)
    sql(
        "UPDATE inboxd.commands SET status = 'running', worker_id = $1 WHERE id = $2",
        uuid.uuid4(),
        runs,
    )
    before = sql("SELECT run_at, priority FROM inboxd.commands WHERE id = $1", beside)
    for wrong, status in ((dead, "failed"), (runs, "running")):
        result = cli("commands", name, beside, wrong, *options)
        assert result.code == 1
        assert f"command {wrong} is {status}: only pending or waiting can be" in result.err
    assert cli("commands", name, beside, 4711, *options).code == 1
    assert sql("SELECT run_at, priority FROM inboxd.commands WHERE id = $1", beside) == before
    assert sql("SELECT * FROM inboxd.audit") == []


def test_invalid_times_and_priorities_are_refused(cli: Cli, sql: Sql) -> None:
    id_ = send(sql)
    for time in ("soon", "9999-06-01T00:00:00Z", "", "-2h"):
        assert cli("commands", "reschedule", id_, f"--at={time}").code == 2
    for priority in ("40000", "high"):
        assert cli("commands", "prioritize", id_, "--priority", priority).code == 2
    assert sql("SELECT * FROM inboxd.audit") == []
