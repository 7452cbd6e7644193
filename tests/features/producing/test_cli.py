"""`inboxd emit` and `send`: written rows and refusals."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]


def test_emit_writes_all_options(cli: Cli, sql: Sql) -> None:
    key = uuid.uuid4()
    arguments = (
        *("emit", "order.created", '{"n": 7}', "--topic", "orders", "--tenant", "t1"),
        *("--source", "shop", "--entity-type", "order", "--entity-id", "9", "--event-id", key),
        *("--correlation-id", "story", "--schema-version", 3, "--delay", "1h", "--json"),
        "--force",
    )
    receipt = cli(*arguments).json
    answer = {"event_id": str(key), "duplicate": False, "conflict": False, "dead_letters": []}
    assert receipt == {"id": receipt["id"], **answer}
    assert cli(*arguments).json["duplicate"] is True
    (row,) = sql("SELECT *, run_at > now() + interval '59 minutes' AS late FROM inboxd.events")
    assert (row["type"], row["topic"], row["tenant"]) == ("order.created", "orders", "t1")
    assert (row["source"], row["entity_type"], row["entity_id"]) == ("shop", "order", "9")
    assert (row["correlation_id"], row["schema_version"], row["late"]) == ("story", 3, True)
    assert json.loads(row["payload"]) == {"n": 7}


def test_send_writes_all_options(cli: Cli, sql: Sql) -> None:
    result = cli("send", "c.d", "--queue", "q", "--priority", -5, "--max-attempts", 2, "--force")
    assert result.code == 0
    (row,) = sql("SELECT * FROM inboxd.commands")
    assert (row["type"], row["queue"], row["priority"]) == ("c.d", "q", -5)
    assert (row["max_attempts"], row["payload"], row["origin_kind"]) == (2, "{}", "api")
    assert result.out.split()[1:3] == [str(row["id"]), str(row["command_id"])]


def test_payload_from_standard_input_and_from_a_file(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "file"}')
    cli("emit", "a.b", "-", "--force", stdin='{"from": "stdin"}')
    cli("emit", "a.b", f"@{file}", "--force")
    rows = sql("SELECT payload ->> 'from' FROM inboxd.events ORDER BY id")
    assert [row[0] for row in rows] == ["stdin", "file"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.b", "{tiptoe"],
        ["a.b", '{"tiptoe": NaN}'],
        ["a.b", '{"tiptoe": "\\u0000"}'],
        ["a.b", "[" * 5000],
        ["a.b", "@/does/not/exist"],
        ["a.b", "{}", "--delay", "30"],
        ["x" * 300, '{"tiptoe": 1}'],
        ["a.b", '{"tiptoe": 1}', "--delay", "36525d", "--schema-version", "0"],
        ["", "{}"],
        [],
    ],
)
def test_invalid_rows_are_usage_errors(cli: Cli, sql: Sql, arguments: list[str]) -> None:
    for command in ("emit", "send"):
        result = cli(command, *arguments, "--force")
        assert result.code == 2, result
        assert "tiptoe" not in result.err
        assert "Traceback" not in result.err
        long = cli(command, "a.b", "--tenant", "x" * 256, "--force")
        assert "tenant has 256 bytes; at most 255 fit: shorten it" in long.err
    assert cli("emit", "a.b", "--event-id", "17", "--force").code == 2
    assert sql("SELECT 1 FROM inboxd.events") == []


def test_conflicting_event_exits_with_65(cli: Cli, sql: Sql) -> None:
    """Its key is known with other content: each topic gets a dead letter, and all are listed."""
    sql(
        "insert into inboxd.subscriptions (topic, type) values ('default', 'stock.moved'),"
        " ('loyalty', 'stock.moved')"
    )
    keyed = ("emit", "stock.moved", "--dedup-key", "k1")
    assert cli(*keyed).code == 0
    conflict = cli(*keyed, '{"n": 2}')
    dead = sql("select id, topic from inboxd.events where status = 'failed' order by id")
    assert [row["topic"] for row in dead] == ["default", "loyalty"]
    assert conflict.code == 65
    assert "its dedup key belongs to an event with different content" in conflict.out
    assert "in 2 topics, a dead letter in each" in conflict.out
    for row in dead:
        assert f"event {row['id']} in topic {row['topic']}" in conflict.out
    told = cli(*keyed, '{"n": 3}', "--json")
    assert (told.code, told.json["conflict"]) == (65, True)
    assert [each["topic"] for each in told.json["dead_letters"]] == ["default", "loyalty"]
    same = cli(*keyed, "--json")
    assert (same.code, same.json["duplicate"], same.json["dead_letters"]) == (0, True, [])
