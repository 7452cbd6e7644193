"""`inboxd trace`: the whole story from any of its rows, also a large one."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]


def send(sql: Sql, type_: str, **values: Any) -> asyncpg.Record:
    values = {"type": type_, "queue": "default", **values}
    columns = ", ".join(values)
    marks = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    query = f"insert into inboxd.commands ({columns}) values ({marks}) returning *"
    return sql(query, *values.values())[0]


def child(sql: Sql, type_: str, parent: asyncpg.Record, **values: Any) -> asyncpg.Record:
    kind = "event" if "event_id" in parent else "command"
    root = parent["correlation_id"] or str(parent[f"{kind}_id"])
    values = {"origin_kind": kind, "origin_id": parent["id"], **values}
    return send(sql, type_, causation_id=parent[f"{kind}_id"], correlation_id=root, **values)


def settle(sql: Sql, id_: int) -> None:
    sql(
        """update inboxd.commands set status = 'running', fence = 1,
                  worker_id = '00000000-0000-0000-0000-000000000001' where id = $1""",
        id_,
    )
    sql(
        """select inboxd.settle_command(
                  $1, 1, '00000000-0000-0000-0000-000000000001', 0.25)""",
        id_,
    )


def fail(sql: Sql, id_: int) -> None:
    sql(
        """update inboxd.commands set status = 'failed', attempts = 3, errors =
           '[{"error": "SMTPError: mailbox full\\nand more"}]' where id = $1""",
        id_,
    )


def traced(cli: Cli, *arguments: object) -> dict[str, Any]:
    """Return the root of the tree that the rows of `trace --json` make."""
    rows = cli("trace", *arguments, "--json").json["rows"]
    known: dict[Any, dict[str, Any]] = {
        (row["kind"], row["id"]): row | {"children": []} for row in rows
    }
    top, *rest = known.values()
    assert top["parent"] is None
    for row in rest:
        known[*row["parent"]]["children"].append(row)
    return top


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node["children"]:
        yield from nodes(below)


def shape(node: dict[str, Any]) -> Any:
    """Return the tree as types."""
    return node["type"], [shape(below) for below in node["children"]]


@pytest.fixture
def story(sql: Sql) -> dict[str, asyncpg.Record]:
    """Make an event whose command sent two, one of which failed; and another story."""
    event = sql("insert into inboxd.events (type) values ('order.paid') returning *")[0]
    ship = child(sql, "ship", event)
    label, mail = child(sql, "label", ship), child(sql, "mail", ship)
    settle(sql, ship["id"])
    settle(sql, label["id"])
    fail(sql, mail["id"])
    other = sql("insert into inboxd.events (type) values ('order.paid') returning *")[0]
    child(sql, "ship", other)
    return {"event": event, "ship": ship, "label": label, "mail": mail}


@pytest.mark.parametrize("start", ["event", "ship", "label", "mail"])
def test_every_row_of_a_story_gives_the_same_tree(
    cli: Cli, story: dict[str, asyncpg.Record], start: str
) -> None:
    row = story[start]
    key = row["event_id"] if start == "event" else row["command_id"]
    found = cli("trace", key, "--json").json
    assert found["asked"] == ["event" if start == "event" else "command", row["id"]]
    assert not found["earlier"]
    assert shape(traced(cli, key)) == (
        "order.paid",
        [("ship", [("label", []), ("mail", [])])],
    )


def test_every_row_of_a_story_has_its_origin(cli: Cli, story: dict[str, asyncpg.Record]) -> None:
    root = str(story["event"]["event_id"])
    found = list(nodes(traced(cli, root)))
    assert {node["correlation_id"] for node in found} == {root}, "the root has its own id"
    assert [node["causation_id"] for node in found] == [
        None,
        root,
        *[str(story["ship"]["command_id"])] * 2,
    ]
    assert [(node["origin_kind"], node["origin_id"]) for node in found[1:]] == [
        ("event", story["event"]["id"]),
        ("command", story["ship"]["id"]),
        ("command", story["ship"]["id"]),
    ]


def test_line_shows_status_attempts_times_and_error(
    cli: Cli, story: dict[str, asyncpg.Record]
) -> None:
    lines = cli("trace", "command", story["mail"]["id"]).out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"event {story['event']['id']}  order.paid  in default  pending")
    assert lines[1].startswith(f"└─ command {story['ship']['id']}  ship  succeeded")
    assert "took 250ms" in lines[1]
    assert lines[2].startswith("   ├─ ")
    assert lines[3].endswith("3 attempts  SMTPError: mailbox full  ◀")


@pytest.fixture
def fan_out(sql: Sql) -> dict[str, asyncpg.Record]:
    """Make an event in two topics: the handler in `default` sent a command and a batch."""
    same = uuid.uuid4()
    rows = {
        topic: sql(
            "insert into inboxd.events (type, topic, event_id) values ('paid', $1, $2) returning *",
            topic,
            same,
        )[0]
        for topic in ("default", "loyalty")
    }
    rows["ship"] = child(sql, "ship", rows["default"])
    rows["label"] = child(sql, "label", rows["ship"])
    rows["batch"] = sql(
        """insert into inboxd.batches (name, kind, origin_kind, origin_id, causation_id)
           values ('mails', 'batch', 'event', $1, $2) returning *""",
        rows["default"]["id"],
        same,
    )[0]
    return rows


def test_each_row_of_a_fan_out_has_its_own_story(
    cli: Cli, sql: Sql, fan_out: dict[str, asyncpg.Record]
) -> None:
    default, loyalty = fan_out["default"]["id"], fan_out["loyalty"]["id"]
    told: Any = ("paid", [("ship", [("label", [])]), ("mails", [])])
    for start in (
        ("event", default),
        ("command", fan_out["label"]["id"]),
        ("batch", fan_out["batch"]["id"]),
    ):
        found = traced(cli, *start)
        assert (found["id"], shape(found)) == (default, told), start
    assert shape(traced(cli, "event", loyalty)) == ("paid", [])
    assert cli("trace", "event", loyalty).out.startswith(
        f"event {loyalty}  paid  in loyalty  pending"
    )
    assert "paid<br/>in default<br/>" in cli("trace", "event", default, "--mermaid").out
    # The trees stay the same when the rows have ended; a missing sender gets no replacement.
    for each in ("ship", "label"):
        settle(sql, fan_out[each]["id"])
    assert shape(traced(cli, "event", loyalty)) == ("paid", [])
    assert shape(traced(cli, "event", default)) == told
    sql("delete from inboxd.events where id = $1", default)
    assert traced(cli, "command", fan_out["ship"]["id"])["type"] == "ship"


def test_children_of_two_topics_are_kept_apart(
    cli: Cli, sql: Sql, fan_out: dict[str, asyncpg.Record]
) -> None:
    """Both rows are in one tree, below the command that emitted them."""
    root = send(sql, "root")
    sql("update inboxd.events set causation_id = $1", root["command_id"])
    child(sql, "points", fan_out["loyalty"])
    found = traced(cli, "command", root["id"])
    below = {node["lane"]: shape(node)[1] for node in found["children"]}
    assert below == {
        "default": [("ship", [("label", [])]), ("mails", [])],
        "loyalty": [("points", [])],
    }


def test_causation_id_alone_matches_the_event_in_any_topic(
    cli: Cli, sql: Sql, fan_out: dict[str, asyncpg.Record]
) -> None:
    given = send(sql, "given", causation_id=fan_out["default"]["event_id"])
    assert traced(cli, "command", given["id"])["id"] == fan_out["loyalty"]["id"], "the newest row"
    assert shape(traced(cli, "event", fan_out["loyalty"]["id"])) == ("paid", [("given", [])])
    assert ("given", []) in shape(traced(cli, "event", fan_out["default"]["id"]))[1]


def test_show_lists_children_and_handlers_of_its_topic(
    cli: Cli, sql: Sql, fan_out: dict[str, asyncpg.Record]
) -> None:
    rules = [
        {"handler": name, "policy": "fixed", "source": "plugin shop", "attempts": 3, "topic": topic}
        for name, topic in (("shop.ship", None), ("shop.add_points", "loyalty"))
    ]
    declare = "insert into inboxd.declared_types (kind, type, retry) values ('event', 'paid', $1)"
    sql(declare, json.dumps(rules))

    def shown(topic: str) -> tuple[list[str], list[str]]:
        row = cli("events", "show", fan_out[topic]["id"], "--json").json
        return [each["type"] for each in row["children"]], [r["handler"] for r in row["retry"]]

    assert shown("default") == (["ship", "mails"], ["shop.ship"])
    assert shown("loyalty") == ([], ["shop.add_points"])
    # Declarations of an older release do not name the topics of handlers.
    older = [{key: rule[key] for key in rule.keys() - {"topic"}} for rule in rules]
    sql("update inboxd.declared_types set retry = $1", json.dumps(older))
    assert shown("loyalty")[1] == ["shop.ship", "shop.add_points"]


def test_event_is_traced_with_its_emitter(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (type, source) values ('tick', 'schedule nightly')")
    assert "from schedule nightly" in cli("trace", "event", 1).out


def test_texts_are_escaped_in_the_diagram(cli: Cli, sql: Sql) -> None:
    root = send(sql, 'a"]<b>#1')
    child(sql, "plain", root)
    lines = cli("trace", root["command_id"], "--mermaid").out.splitlines()
    assert lines[0] == "flowchart TD"
    assert "a#34;]#60;b#62;#35;1" in lines[1]
    assert [line for line in lines if "-->" in line]


def test_markdown_has_the_times_and_the_diagram(cli: Cli, story: dict[str, asyncpg.Record]) -> None:
    told = cli("trace", "event", story["event"]["id"], "--markdown").out
    assert told.startswith(f"# Story of event {story['event']['id']}\n")
    lines = [line for line in told.splitlines() if line.startswith("| ")]
    assert len(lines) == 6
    settled = lines[3].split(" | ")
    assert settled[:3] == [f"| · command {story['ship']['id']}", "`ship`", "succeeded"]
    assert settled[5] == "250ms"
    assert "`SMTPError: mailbox full`" in lines[5]
    assert cli("trace", "event", story["event"]["id"], "--mermaid").out in told


def test_ambiguous_number_needs_its_kind(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (type) values ('a')")
    send(sql, "b")
    both = cli("trace", 1)
    assert both.code == 1
    assert "event and command" in both.err
    assert traced(cli, "event", 1)["type"] == "a"
    assert traced(cli, "command", 1)["type"] == "b"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("4711",), 1, "there is no event, command, batch or receipt 4711"),
        (("event", "4711"), 1, "an event whose topic was declared later has a new id"),
        (("batch", "4711"), 1, "there is no batch 4711"),
        ((str(uuid.UUID(int=9)),), 1, "there is no"),
        (("job", "4711"), 2, "'job 4711' does not name a row"),
        (("x",), 2, "'x' is not a row number or a uuid"),
        (("1", "--json", "--mermaid"), 2, "give only one of"),
        (("1", "--markdown", "--mermaid"), 2, "give only one of"),
    ],
)
def test_unknown_rows_are_refused(
    cli: Cli, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = cli("trace", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_batch_is_traced_with_members_and_next_commands(cli: Cli, sql: Sql) -> None:
    event = sql("insert into inboxd.events (type) values ('activity') returning *")[0]
    (made,) = sql(
        """select * from inboxd.send_batch('emails', $1::text::jsonb,
                  then_send => '{"type": "tell"}', correlation_id => $2::text,
                  causation_id => $2::uuid)""",
        json.dumps([{"type": "mail", "payload": {}}] * 3),
        str(event["event_id"]),
    )
    mails = sql("select id from inboxd.commands where type = 'mail' order by id")
    settle(sql, mails[0]["id"])
    fail(sql, mails[2]["id"])
    sql("select inboxd.fold_batch($1)", made["id"])
    told = sql("select command_id from inboxd.commands where type = 'tell'")[0][0]
    found = traced(cli, told)
    assert (found["type"], found["children"][0]["type"]) == ("activity", "emails")
    batch = found["children"][0]
    assert sorted(node["type"] for node in batch["children"]) == ["mail", "mail", "mail", "tell"]
    assert batch["counts"]["succeeded"] == batch["counts"]["failed"] == 1
    assert batch["hidden"] == {}
    tell = next(node for node in batch["children"] if node["type"] == "tell")
    assert tell["notes"] == [f"waits for batch {made['id']} (emails): succeeded"]
    lines = cli("trace", "batch", made["id"], "--each", 2).out
    assert "3 commands: 1 succeeded, 1 failed" in lines
    assert "… 1 succeeded, " in lines or "1 unsettled more" in lines


def test_circle_of_rows_ends_the_trace(cli: Cli, sql: Sql) -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    send(sql, "first", command_id=first, causation_id=second)
    send(sql, "second", command_id=second, causation_id=first)
    assert shape(traced(cli, first)) == ("second", [("first", [])])


def test_long_chain_is_cut_above_with_a_remark(cli: Cli, sql: Sql) -> None:
    """A command that sends its successor makes an endless chain."""
    sql(
        """insert into inboxd.commands (command_id, queue, type, causation_id)
           select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'default', 'tick',
                  ('00000000-0000-0000-0000-' || lpad((n - 1)::text, 12, '0'))::uuid
             from generate_series(1, 500) n"""
    )
    found = cli("trace", "command", 400, "--json").json
    assert found["earlier"]
    assert ("command", 400) in [(node["kind"], node["id"]) for node in found["rows"]]
    assert "has ancestors" in cli("trace", "command", 400).err


def test_requested_row_is_shown_among_many_siblings(cli: Cli, sql: Sql) -> None:
    root = send(sql, "root")
    sql(
        """insert into inboxd.commands (queue, type, causation_id)
           select 'default', 'leaf', $1 from generate_series(1, 3000)""",
        root["command_id"],
    )
    (dead,) = sql("select max(id) from inboxd.commands")[0]
    fail(sql, dead)
    found = traced(cli, "command", 2500)
    shown = {node["id"] for node in found["children"]}
    assert {2500, dead} <= shown
    assert len(shown) <= 11
    assert found["unsure"]
    assert sum(found["hidden"].values()) >= 980


@pytest.mark.long
def test_story_of_a_million_rows_is_traced_quickly(cli: Cli, sql: Sql) -> None:
    root = send(sql, "root")
    (made,) = sql("select * from inboxd.open_batch('many', causation_id => $1)", root["command_id"])
    sql(
        """insert into inboxd.commands (queue, type, batch_id, causation_id)
           select 'default', 'leaf', $1, $2 from generate_series(1, 1000000)""",
        made["id"],
        made["new_batch_id"],
    )
    sql("update inboxd.batches set size = 1000000")
    sql("analyze inboxd.commands")
    fail(sql, 900_000)
    started = time.monotonic()
    found = traced(cli, "command", root["id"])
    took = time.monotonic() - started
    batch = found["children"][0]
    assert batch["hidden"]["unsettled"] > 999_000
    assert 900_000 in {node["id"] for node in batch["children"]}, "the dead letter is shown"
    assert took < 10
