"""`inboxd topics lists` and `flush`: what waits in lists, and what an operator wants now."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]

_FILL = """
insert into inboxd.topics (name, mode, source) values ('shipments', 'batch', 'plugin shop');
insert into inboxd.events (topic, type, ordering_key)
    select 'shipments', 'order.paid', 'o' || n / 3 from generate_series(0, 5) n;
insert into inboxd.events (topic, type, ordering_key) values ('shipments', 'order.paid', 'fresh');
update inboxd.events e set place = n.place, head = n.place = 1, run_at = now() + n.due
    from (select id, row_number() over (partition by ordering_key order by id) as place,
                 case ordering_key when 'o0' then interval '2 hours' else '1 hour' end as due
            from inboxd.events where ordering_key <> 'fresh') n where n.id = e.id
"""


@pytest.fixture(autouse=True)
def filled(sql: Sql) -> None:
    """Two lists that wait, and an event that is in none yet."""
    for statement in _FILL.split(";\n"):
        sql(statement)


def test_what_waits(cli: Cli) -> None:
    found = cli("topics", "lists", "shipments", "--json").json
    assert found["arrived"] == 1
    assert [(each["key"], each["events"], each["attempts"]) for each in found["lists"]] == [
        ("o1", 3, 0),
        ("o0", 3, 0),
    ]
    assert found["lists"][0]["due_at"] < found["lists"][1]["due_at"]
    table = cli("topics", "lists", "shipments", "--limit", "1").out
    assert "o1" in table
    assert "o0" not in table
    assert "1 events have arrived" in table
    assert cli("topics", "lists", "nowhere", "--json").json["lists"] == []


def test_a_list_is_wanted_now(cli: Cli, sql: Sql) -> None:
    due = "select ordering_key from inboxd.events where head and run_at <= clock_timestamp()"
    assert cli("topics", "flush", "shipments", "o0", "--json").json["keys"] == ["o0"]
    assert [row[0] for row in sql(due)] == ["o0"]
    assert "1 lists of shipments are due now" in cli("topics", "flush", "shipments").out
    assert sorted(row[0] for row in sql(due)) == ["o0", "o1"]
    audit = sql("select action, target, count from inboxd.audit order by id")
    assert [tuple(row) for row in audit] == [("flush", "topic shipments", 1)] * 2
    refused = cli("topics", "flush", "shipments", "o7")
    assert refused.code == 1
    assert "no list of the key 'o7'" in refused.err
