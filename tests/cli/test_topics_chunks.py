"""`inboxd topics chunks` and `flush`: waiting chunks, and chunks that an operator makes due."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from inboxd.api.chunk_due import NEVER
from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]

_FILL = """
insert into inboxd.topics (name, mode, source) values ('shipments', 'batch', 'plugin shop');
insert into inboxd.events (topic, type, ordering_key)
    select 'shipments', 'order.paid', 'o' || n / 3 from generate_series(0, 5) n;
insert into inboxd.events (topic, type, ordering_key) values ('shipments', 'order.paid', 'fresh');
update inboxd.events e set position = n.position, head = n.position = 1, run_at = now() + n.due
    from (select id, row_number() over (partition by ordering_key order by id) as position,
                 case ordering_key when 'o0' then interval '2 hours' else '1 hour' end as due
            from inboxd.events where ordering_key <> 'fresh') n where n.id = e.id
"""


@pytest.fixture(autouse=True)
def filled(sql: Sql) -> None:
    """Make two waiting chunks, and an event that is in no chunk yet."""
    for statement in _FILL.split(";\n"):
        sql(statement)


def test_waiting_chunks_are_listed(cli: Cli) -> None:
    found = cli("topics", "chunks", "shipments", "--json").json
    assert found["arrived"] == 1
    assert [(each["key"], each["events"], each["attempts"]) for each in found["chunks"]] == [
        ("o1", 3, 0),
        ("o0", 3, 0),
    ]
    assert found["chunks"][0]["due_at"] < found["chunks"][1]["due_at"]
    table = cli("topics", "chunks", "shipments", "--limit", "1")
    assert "o1" in table.out
    assert "o0" not in table.out
    assert "1 new event not yet in a chunk" in table.err


def test_chunk_that_waits_only_for_its_count_has_no_due_time(cli: Cli, sql: Sql) -> None:
    sql("update inboxd.events set run_at = created_at + $1 where ordering_key = 'o0'", NEVER)
    soon, whenever = cli("topics", "chunks", "shipments", "--json").json["chunks"]
    assert (soon["key"], whenever["key"], whenever["due_at"]) == ("o1", "o0", None)
    assert soon["due_at"] is not None


@pytest.mark.parametrize(
    ("topic", "cause", "code"),
    [("nowhere", "it is not declared", 66), ("points", "it is sequential", 1)],
)
def test_topic_without_chunks_is_refused(
    cli: Cli, sql: Sql, topic: str, cause: str, code: int
) -> None:
    sql("insert into inboxd.topics (name, mode, source) values ('points', 'sequential', 'shop')")
    sql("insert into inboxd.events (topic, type, ordering_key) values ('points', 't.paid', 'k')")
    refused = cli("topics", "chunks", topic)
    assert refused.code == code
    assert f"There is no batch topic '{topic}': {cause}" in refused.err


def test_batch_topic_without_waiting_chunks_has_an_empty_list(cli: Cli, sql: Sql) -> None:
    sql("delete from inboxd.events")
    assert cli("topics", "chunks", "shipments", "--json").json["chunks"] == []


def test_chunks_of_a_former_batch_topic_are_listed(cli: Cli, sql: Sql) -> None:
    sql("update inboxd.topics set mode = 'single'")
    assert len(cli("topics", "chunks", "shipments", "--json").json["chunks"]) == 2


def test_events_that_wait_for_their_chunk_are_marked(cli: Cli) -> None:
    """Such an event is not behind another one, and its topic shows when the next chunk is due."""
    told = cli("topics", "list", "--aligned").out
    assert "in line: " in told
    assert "in batch topics, until their chunk is due" in told
    first = cli("topics", "chunks", "shipments", "--json").json["chunks"][0]
    shown = cli("topics", "show", "shipments").out
    events = "1 event" if first["events"] == 1 else f"{first['events']} events"
    assert re.search(rf"next chunk +(due|when it is full).*: {events} of key {first['key']}", shown)
    assert "next chunk" not in cli("topics", "show", "shipments", "--json").out


def test_flush_makes_chunks_due(cli: Cli, sql: Sql) -> None:
    due = "select ordering_key from inboxd.events where head and run_at <= clock_timestamp()"
    assert cli("topics", "flush", "shipments", "o0", "--json").json["keys"] == ["o0"]
    assert [row[0] for row in sql(due)] == ["o0"]
    assert "1 chunk of shipments is due now" in cli("topics", "flush", "shipments").out
    assert sorted(row[0] for row in sql(due)) == ["o0", "o1"]
    audit = sql("select action, target, count from inboxd.audit order by id")
    assert [tuple(row) for row in audit] == [("flush", "topic shipments", 1)] * 2
    refused = cli("topics", "flush", "shipments", "o7")
    assert refused.code == 1
    assert "no chunk of the key 'o7'" in refused.err


def test_event_in_a_chunk_cannot_be_rescheduled(cli: Cli, sql: Sql) -> None:
    """An event of a line has no time of its own, except an event that is retried alone."""
    rows = sql("select id, ordering_key as key, head from inboxd.events order by id")
    beside = sql("insert into inboxd.events (type) values ('a.b') returning id")[0][0]
    times = sql("select run_at from inboxd.events order by id")
    lined_up = next(row["id"] for row in rows if row["key"] == "o0" and not row["head"])
    fresh = next(row["id"] for row in rows if row["key"] == "fresh")
    refused = cli("events", "reschedule", beside, lined_up, fresh, "--at", "2h")
    assert refused.code == 1
    for part in (
        f"event {lined_up} of shipments, {fresh} of shipments: waits in a chunk",
        "nothing was changed",
        "`inboxd topics flush shipments`",
        "`inboxd pause topic shipments`",
    ):
        assert part in refused.err
    assert sql("select run_at from inboxd.events order by id") == times
    assert sql("select * from inboxd.audit") == []
    sql("update inboxd.events set status = 'pending', position = null where id = $1", lined_up)
    assert cli("events", "reschedule", lined_up, "--at", "2h").code == 0


def test_pause_counts_waiting_events_of_chunks(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (topic, type) values ('shipments', 'order.packed')")
    told = cli("pause", "topic", "shipments")
    assert told.out == "Paused: topic shipments, 8 rows waiting\n"
    assert cli("resume", "topic", "shipments", "--json").json["waiting"] == 8
    assert cli("pause", "type", "order.paid", "--json").json["waiting"] == 7
    assert cli("pause", "type", "order.packed", "--json").json["waiting"] == 1
    assert [row[0] for row in sql("select count from inboxd.audit order by id")] == [8, 8, 7, 1]
