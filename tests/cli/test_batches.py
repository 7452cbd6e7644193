"""Batches and workflows at the command line."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]
NOOP = {"type": "test.noop", "queue": "default"}
THEN = {"type": "test.then", "queue": "default"}


def send_batch(sql: Sql, name: str, members: int, **fields: Any) -> asyncpg.Record:
    return sql(
        "select id, new_batch_id as uuid"
        " from inboxd.send_batch($1, $2, $3, tenant => $4, type => $5)",
        name,
        json.dumps([NOOP] * members),
        json.dumps(THEN),
        fields.get("tenant"),
        fields.get("type"),
    )[0]


def send_workflow(sql: Sql) -> int:
    steps = [
        {"name": "a", **NOOP},
        {"name": "b", "after": "a", **NOOP},
        {"name": "undo", "after": {"step": "a", "when": "failed"}, **NOOP},
    ]
    row = sql(
        "select id from inboxd.send_workflow('seed', $1, $2, type => 'a.seed')",
        json.dumps(steps),
        json.dumps(THEN),
    )
    id_: int = row[0]["id"]
    return id_


def test_list_has_totals_and_filters(cli: Cli, sql: Sql) -> None:
    first = send_batch(sql, "mails", 2, tenant="a", type="school.mails")
    second = send_batch(sql, "empty", 0)
    workflow = send_workflow(sql)
    found = cli("batches", "list", "--json").json
    assert [row["id"] for row in found["batches"]] == [second["id"], first["id"]]
    none, one = ({"rows": rows, "exactness": "exact"} for rows in (0, 1))
    assert found["totals"] == {
        **dict.fromkeys(("waiting", "running", "failed", "cancelled"), none),
        "pending": one,
        "succeeded": one,
    }
    assert (found["batches"][1]["size"], found["batches"][1]["unsettled"]) == (2, 2)
    for option in (
        ("--status", "pending"),
        ("--name", "mails"),
        ("--type", "school.mails"),
        ("--tenant", "a"),
        ("--after", second["id"]),
    ):
        found = cli("batches", "list", "--json", *option).json
        assert [row["id"] for row in found["batches"]] == [first["id"]], option
    assert cli("batches", "list", "--json", "--open").json["batches"] == []
    of_type = cli("batches", "list", "--json", "--type", "school.mails").json
    counted = sum(number["rows"] for number in of_type["totals"].values())
    assert counted == 1, "totals count only the type"
    assert [row["type"] for row in of_type["batches"]] == ["school.mails"]
    for type_, ids in (("a.seed", [workflow]), ("a.other", [])):
        found = cli("workflows", "list", "--json", "--type", type_).json
        assert [row["id"] for row in found["workflows"]] == ids
    assert [row["id"] for row in cli("workflows", "list", "--json").json["workflows"]] == [workflow]
    table = cli("batches", "list", "--limit", "1")
    assert "2 total, 0 waiting, 1 pending" in table.err
    titles, row = table.out.splitlines()
    assert len(row.split("\t")) == len(titles.split("\t"))
    assert "empty" in row
    assert f"add --after {second['id']}" in table.err


def test_a_list_says_how_far_it_looked_and_goes_on(cli: Cli, sql: Sql) -> None:
    """A rare type beyond the rows that one request looks at."""
    rare = send_batch(sql, "old", 0, type="rare")["id"]
    sql(
        "insert into inboxd.batches (kind, name, type, status)"
        " select 'batch', 'new', 'common', 'succeeded' from generate_series(1, 10500)"
    )
    listed = ("batches", "list", "--type", "rare")
    found = cli(*listed, "--json").json
    assert (found["batches"], found["looked_at"]) == ([], 10_000)
    assert found["looked_back_to"] is not None
    told = cli(*listed).err
    assert "Looked back to" in told
    assert "(10,000 rows): 0 found; --look N looks further." in told
    on = cli(*listed, "--after", found["next"], "--json").json
    assert [row["id"] for row in on["batches"]] == [rare]
    assert (on["next"], on["looked_back_to"]) == (None, None)
    further = cli(*listed, "--look", 20_000, "--json").json
    assert [row["id"] for row in further["batches"]] == [rare]
    assert (further["looked_at"], further["next"]) == (10_501, None)
    full = cli("batches", "list", "--type", "common", "--limit", "5", "--json").json
    assert (len(full["batches"]), full["looked_at"]) == (5, 5), "a full page looks no further"


def test_a_list_since_a_time_ends_at_that_time(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.batches (kind, name, type, status, created_at, finished_at)"
        " select 'batch', 'n', 't', 'succeeded', now() - age, now() - age"
        " from unnest($1::interval[]) age",
        [timedelta(days=3)] * 10_500 + [timedelta(0)],
    )
    found = cli("batches", "list", "--since", "1h", "--json").json
    assert (len(found["batches"]), found["next"], found["looked_back_to"]) == (1, None, None)


def test_batch_is_shown_with_its_next_commands_and_failures(cli: Cli, sql: Sql) -> None:
    batch = send_batch(sql, "mails", 1)
    errors = json.dumps([{"error": "ValueError: no"}])
    sql(
        "update inboxd.commands set status = 'failed', errors = $2 where batch_id = $1",
        batch["id"],
        errors,
    )
    sql("select inboxd.fold_batch($1)", batch["id"])
    shown = cli("batches", "show", batch["uuid"], "--json").json
    assert (shown["status"], shown["failed"]) == ("failed", 1)
    assert [(row["condition"], row["type"]) for row in shown["waiting"]] == [
        ("succeeded", "test.then")
    ]
    assert shown["failures"][0]["error"] == "ValueError: no"
    text = cli("batches", "show", batch["id"]).out
    assert "ValueError: no" in text
    sql("update inboxd.commands set status = 'pending' where batch_id = $1", batch["id"])
    sql("update inboxd.batches set status = 'succeeded' where id = $1", batch["id"])
    assert "Succeeded after a failure" in cli("batches", "show", batch["id"]).out


def test_workflow_is_shown_step_by_step(cli: Cli, sql: Sql) -> None:
    workflow = send_workflow(sql)
    shown = cli("workflows", "show", workflow, "--json").json
    assert {row["name"]: (row["status"], row["waits"]) for row in shown["steps"]} == {
        "a": ("pending", []),
        "b": ("waiting", ["a succeeded"]),
        "undo": ("waiting", ["a failed"]),
    }
    assert "a succeeded" in cli("workflows", "show", workflow).out


@pytest.mark.parametrize("what", ["batches", "workflows"])
def test_cancel_ends_all_members_and_is_audited(cli: Cli, sql: Sql, what: str) -> None:
    batch = send_workflow(sql) if what == "workflows" else send_batch(sql, "m", 3)["id"]
    done = cli(what, "cancel", batch, "--reason", "twice")
    assert f"Cancelled: {batch}" in done.out
    assert "3 unsettled" in done.out
    row = sql("select status, cancelled, size from inboxd.batches")[0]
    assert tuple(row) == ("cancelled", 3, 3)
    assert sql("select from inboxd.commands") == []
    assert sql("select from inboxd.dependencies") == []
    audit = sql("select action, reason, count from inboxd.audit")[0]
    assert tuple(audit) == ("cancel", "twice", 3)
    again = cli(what, "cancel", batch)
    assert again.code != 0
    assert "has ended (cancelled); nothing was changed" in again.err


def test_batch_is_refused_as_a_workflow(cli: Cli, sql: Sql) -> None:
    batch = send_batch(sql, "mails", 1)["id"]
    sql("update inboxd.commands set status = 'failed' where batch_id = $1", batch)
    for action in ("show", "cancel", "resume"):
        refused = cli("workflows", action, batch)
        assert refused.code == 1
        assert f"batch {batch} (mails) is not a workflow: see `inboxd batches show" in refused.err
    assert sql("select from inboxd.audit") == []


def test_resume_without_a_dead_letter_is_refused(cli: Cli, sql: Sql) -> None:
    workflow = send_workflow(sql)
    for option in ("--yes", "--dry-run"):
        refused = cli("workflows", "resume", workflow, option)
        assert refused.code == 1
        assert f"workflow {workflow} (seed) is pending, and has no dead letter" in refused.err
    assert sql("select from inboxd.audit") == []


def test_cancelled_workflow_cannot_be_resumed(cli: Cli, sql: Sql) -> None:
    workflow = send_workflow(sql)
    sql("update inboxd.commands set status = 'failed' where status = 'pending'")
    cli("workflows", "cancel", workflow)
    shown = cli("workflows", "show", workflow, "--json").json
    assert {row["name"]: (row["status"], row["waits"]) for row in shown["steps"]} == {
        "a": ("failed", []),
        "b": ("cancelled", []),
        "undo": ("cancelled", []),
    }
    refused = cli("workflows", "resume", workflow)
    assert f"workflow {workflow} (seed) was cancelled" in refused.err
    assert [row["action"] for row in sql("select action from inboxd.audit")] == ["cancel"]


def test_command_is_shown_with_the_rows_it_waits_for(cli: Cli, sql: Sql) -> None:
    shown = cli("workflows", "show", send_workflow(sql), "--json").json
    first, second, _ = (step["id"] for step in shown["steps"])
    row = cli("commands", "show", second, "--json").json
    assert row["waits_for"] == [
        {"kind": "command", "id": first, "type": "test.noop", "status": "pending"}
        | {"condition": "succeeded"}
    ]
    assert row["retry"][0]["next_at"] is None
    assert f"command {first}" in cli("commands", "show", second).out
    assert cli("commands", "show", first, "--json").json["waits_for"] == []


def test_skipped_command_is_shown_as_not_needed(cli: Cli, sql: Sql) -> None:
    sql("select from inboxd.send_batch('e', '[]', otherwise_send => $1)", json.dumps(THEN))
    (row,) = cli("commands", "list", "--json").json["commands"]
    assert (row["status"], row["error"]) == ("cancelled", "skipped: not needed")
    assert "Skipped: the row that it waited for" in cli("commands", "show", row["id"]).out
    assert "skipped: not needed" in cli("trace", "command", row["id"]).out
    cancelled = cli("send", "test.noop", "--force", "--json").json["id"]
    cli("commands", "cancel", cancelled)
    assert cli("commands", "list", "--json").json["commands"][0]["error"] is None
    assert "Skipped" not in cli("commands", "show", cancelled).out


def test_workflow_is_traced_as_workflow_or_batch(cli: Cli, sql: Sql) -> None:
    workflow = send_workflow(sql)
    assert cli("trace", "workflow", workflow).out == cli("trace", "batch", workflow).out


def test_ended_batch_cannot_be_cancelled(cli: Cli, sql: Sql) -> None:
    batch = send_batch(sql, "empty", 0)["id"]
    refused = cli("batches", "cancel", batch)
    assert f"batch {batch} (empty) has ended (succeeded); nothing was changed" in refused.err
    assert sql("select from inboxd.audit") == []


def test_open_batch_is_closed_by_hand(cli: Cli, sql: Sql) -> None:
    opened = sql("select id from inboxd.open_batch('big', $1)", json.dumps(THEN))[0]["id"]
    assert "pending, open" in cli("batches", "list").out
    sql("update inboxd.batches set expired_at = now()")
    assert "pending, expired" in cli("batches", "list").out
    assert cli("batches", "list", "--open", "--json").json["batches"][0]["id"] == opened
    assert f"Closed: {opened} big, 0 unsettled" in cli("batches", "close", opened).out
    assert sql("select status from inboxd.batches")[0]["status"] == "succeeded"
    assert sql("select status from inboxd.commands")[0]["status"] == "pending"
    assert "is closed already" in cli("batches", "close", opened).err
    assert [row["action"] for row in sql("select action from inboxd.audit")] == ["close"]


@pytest.mark.parametrize(
    "action", [("batches", "show"), ("batches", "cancel"), ("batches", "close")]
)
def test_unknown_batch_is_named(cli: Cli, action: tuple[str, str]) -> None:
    unknown = uuid4()
    refused = cli(*action, unknown)
    assert refused.code != 0
    assert f"there is no batch {unknown}" in refused.err


def test_resume_replays_the_dead_letters_of_a_workflow(cli: Cli, sql: Sql) -> None:
    workflow = send_workflow(sql)
    sql("update inboxd.commands set status = 'failed' where status = 'pending'")
    sql("select inboxd.fold_batch($1)", workflow)
    sql("update inboxd.commands set status = 'failed' where status = 'pending'")
    sql("select inboxd.fold_batch($1)", workflow)
    assert cli("workflows", "show", workflow, "--json").json["status"] == "failed"
    dry = cli("workflows", "resume", workflow, "--dry-run", "--json").json
    assert dry["count"] == 2
    assert cli("workflows", "resume", workflow, "--json").json == {"action": "replay", "count": 2}
    sql("select inboxd.fold_batch($1)", workflow)
    shown = cli("workflows", "show", workflow, "--json").json
    assert {row["name"]: row["status"] for row in shown["steps"]} == {
        "a": "pending",
        "b": "waiting",
        "undo": "pending",
    }
    assert shown["status"] in ("pending", "running")
    assert "there is no batch 99" in cli("workflows", "resume", 99, "--json").err
