"""`inboxd topics`: declared topics, their backlogs, and the end of a subscription."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]

_FILL = """
insert into inboxd.topics (name, mode, key_path, dedup_path, rules, source)
    values ('points', 'sequential', '{user,id}', '{}', '{"on_failure": "skip"}', 'plugin shop'),
           ('nothing', 'batch', null, null, '{"count": 3}', 'settings');
insert into inboxd.subscriptions (type, topic, undeclared_at)
    values ('t.paid', 'points', null), ('t.old', 'points', now());
insert into inboxd.events (topic, type, ordering_key)
    select 'points', 't.paid', 'k' || n from generate_series(1, 5) n;
update inboxd.events set status = 'failed', position = 1, head = true,
    updated_at = now() - interval '90 seconds' where ordering_key = 'k1';
update inboxd.events set position = 1, head = true where ordering_key = 'k2';
insert into inboxd.events (type) values ('t.single')
"""


@pytest.fixture
def filled(sql: Sql) -> None:
    """Make a topic with lines, one without events, and an undeclared one."""
    for statement in _FILL.split(";\n"):
        sql(statement)


@pytest.mark.usefixtures("filled")
def test_declared_topics_are_listed_with_their_backlogs(cli: Cli) -> None:
    found = {row["topic"]: row for row in cli("topics", "list", "--json").json["topics"]}
    assert sorted(found) == ["default", "nothing", "points"]
    points = found["points"]
    counts = ("pending", "arrived", "lined_up", "blocked", "failed")
    assert [points[name] for name in counts] == [0, 3, 2, 1, 1]
    assert 89 < points["blocked_for"] < 130
    assert (points["mode"], points["types"]) == ("sequential", ["t.old", "t.paid"])
    assert points["undeclared"] == ["t.old"]
    assert found["default"]["pending"] == 1
    table = cli("topics", "list").out
    assert "1 (1m" in table
    shown = cli("topics", "show", "points").out
    for part in ("plugin shop", "/user/id", "event_id", "skip", "t.old", "1 (1m"):
        assert part in shown
    assert cli("topics", "show", "points", "--json").json["rules"] == {"on_failure": "skip"}


@pytest.mark.usefixtures("filled")
def test_status_has_lines(cli: Cli) -> None:
    lanes = cli("status", "--json").json["lanes"]
    (lines,) = (lane for lane in lanes if lane["type"] == "(lines)")
    assert (lines["topic"], lines["in_line"], lines["failed"]) == ("points", 5, 1)


@pytest.mark.usefixtures("filled")
def test_pause_counts_waiting_events_of_lines(cli: Cli) -> None:
    """The dead letter at a line's head does not count; a type counts in all topics."""
    assert cli("pause", "topic", "points", "--json").json["waiting"] == 4
    assert cli("pause", "type", "t.paid", "--json").json["waiting"] == 4
    assert cli("pause", "type", "t.single", "--json").json["waiting"] == 1
    assert cli("pause", "type", "t.none", "--force", "--json").json["waiting"] == 0


@pytest.mark.usefixtures("filled")
def test_unsubscribe_ends_an_undeclared_subscription(cli: Cli, sql: Sql) -> None:
    assert "points gets no more events of: t.old" in cli("topics", "unsubscribe", "points").out
    (entry,) = sql("select action, target, count from inboxd.audit")
    assert tuple(entry) == ("unsubscribe", "topic points", 1)
    refused = cli("topics", "unsubscribe", "points", "t.paid")
    assert refused.code == 1
    assert "a living worker declares the topic" in refused.err
    assert cli("topics", "unsubscribe", "points", "t.none").code == 1
    assert cli("topics", "show", "nowhere").code == 66


_HELD = """
update inboxd.events set attempts = 5, errors = '[{"error": "Rejected: no such user"}]'
    where ordering_key = 'k1';
insert into inboxd.events (topic, type, ordering_key)
    select 'points', 't.paid', 'k' || n from generate_series(1, 3) n;
update inboxd.events set position = 2 where position is null and ordering_key in ('k1', 'k2')
    and topic = 'points';
update inboxd.events set run_at = now() + interval '1 hour', attempts = 1
    where head and ordering_key = 'k2';
insert into inboxd.topics (name, mode, source) values ('orders', 'sequential', 'plugin shop');
insert into inboxd.events (topic, type, ordering_key) values ('orders', 't.placed', 'o1');
update inboxd.events set status = 'failed', position = 7, head = true where topic = 'orders'
"""


@pytest.mark.usefixtures("filled")
def test_blocked_lines_are_listed(cli: Cli, sql: Sql) -> None:
    """Lines are blocked by a dead letter, or by a retry with events behind; the oldest first."""
    for statement in _HELD.split(";\n"):
        sql(statement)
    found = cli("topics", "blocked", "--json").json["lines"]
    shown = [(row["topic"], row["key"], row["held_by"], row["length"]) for row in found]
    assert shown == [
        ("points", "k1", "dead letter", 2),
        ("points", "k2", "retry", 2),
        ("orders", "o1", "dead letter", 1),
    ]
    dead, retry, _ = found
    assert 89 < dead["age"] < 130
    assert (dead["attempts"], dead["next_at"]) == (5, None)
    assert dead["error"] == "Rejected: no such user"
    assert retry["next_at"] is not None
    (rule,) = cli("events", "show", retry["id"], "--json").json["retry"]
    assert rule["next_at"] is not None
    table = cli("topics", "blocked").out
    for part in ("k1", "dead letter", "1m", "no such user", "k2", "retry", "o1"):
        assert part in table
    of_one = cli("topics", "blocked", "--topic", "orders", "--json").json["lines"]
    assert [row["key"] for row in of_one] == ["o1"]
    first = cli("topics", "blocked", "--limit", "1", "--json").json["lines"]
    assert [row["key"] for row in first] == ["k1"]


def test_list_of_blocked_lines_may_be_empty(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.events (type) values ('t.single')")
    assert cli("topics", "blocked", "--json").json == {"lines": []}
    assert cli("topics", "blocked").code == 0
