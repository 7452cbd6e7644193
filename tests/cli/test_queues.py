"""`inboxd queues`: backlogs, and blocked ordering keys with their holders."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]

# In each queue a dead letter holds the key `dead`, and a command that waits for its retry the key
# `again`, both with due rows behind; `later` has no due row behind, and `alone` none at all.
_FILL = """
insert into inboxd.commands (queue, type, ordering_key, status, line_at, run_at, attempts)
    select q, 't.' || k, k, case when k = 'again' then 'waiting' else 'failed' end,
           now() - interval '1 hour', now() + interval '10 minutes', 2
      from unnest(array['plain', 'skip', 'wide']) q,
           unnest(array['dead', 'again', 'later', 'alone']) k;
insert into inboxd.commands (queue, type, ordering_key)
    select q, 't.b', k from unnest(array['plain', 'skip', 'wide']) q,
           unnest(array['dead', 'again', 'free']) k, generate_series(1, 3);
insert into inboxd.commands (queue, type, ordering_key, run_at)
    select q, 't.b', 'later', now() + interval '1 hour'
      from unnest(array['plain', 'skip', 'wide']) q;
update inboxd.commands set run_at = now() - interval '90 seconds'
    where type = 't.b' and ordering_key = 'dead' and queue = 'plain';
insert into inboxd.commands (queue, type, status, needs) values ('plain', 't.w', 'waiting', 1);
insert into inboxd.commands (queue, type) values ('unset', 't.p');
"""


@pytest.fixture
def filled(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make three queues with lines, and settings for some."""
    for statement in _FILL.strip(";\n").split(";\n"):
        sql(statement)
    monkeypatch.setenv(
        "INBOXD_QUEUES",
        '{"skip": {"on_failure": "skip", "rate": "600/m"}, "wide": {"key_concurrency": 2},'
        ' "idle": {"total_concurrency": 7}}',
    )


@pytest.mark.usefixtures("filled")
def test_queues_show_backlogs_and_blocked_keys(cli: Cli, sql: Sql) -> None:
    found = {row["queue"]: row for row in cli("queues", "list", "--json").json["queues"]}
    assert sorted(found) == ["idle", "plain", "skip", "unset", "wide"]
    plain = found["plain"]
    counts = ("pending", "running", "failed", "in_line", "unmet", "keys")
    assert [plain[name] for name in counts] == [11, 0, 3, 11, 1, 4]
    assert found["unset"]["pending"] == 1
    assert {name: _keys(row) for name, row in found.items()} == {
        "idle": {},
        "unset": {},
        "wide": {},
        "plain": {"dead letter": 1, "retry": 1},
        "skip": {"retry": 1},
    }
    assert 89 < plain["blocked"]["dead letter"]["oldest"] < 120
    assert found["skip"]["limits"] == {"on_failure": "skip", "rate": "600/m"}
    assert found["idle"]["limits"] == {"total_concurrency": 7}
    listed = cli("queues", "list")
    lines = listed.out.splitlines()
    (line,) = [line for line in lines if "plain" in line]
    assert "1 by dead letter (1m3" in line
    assert any("total_concurrency 7" in line for line in lines)
    assert all("\t" in line for line in lines)
    assert "from this command's settings" in listed.err

    shown = cli("queues", "show", "plain", "--json").json
    dead, again = shown["blocked_keys"]
    assert (dead["key"], dead["held_by"], dead["status"]) == ("dead", "dead letter", "failed")
    assert (dead["behind"], dead["attempts"], dead["next_at"]) == (3, 2, None)
    assert (again["key"], again["held_by"], again["type"]) == ("again", "retry", "t.again")
    assert (dead["title"], again["title"]) == ("T dead", "T again")
    assert again["next_at"] is not None
    (rule,) = cli("commands", "show", again["id"], "--json").json["retry"]
    assert datetime.fromisoformat(rule["next_at"]) == datetime.fromisoformat(again["next_at"])
    (row,) = sql("select id from inboxd.commands where type = 't.dead' and queue = 'plain'")
    assert dead["id"] == row["id"]
    text = cli("queues", "show", "plain", "--limit", 1).out
    assert str(row["id"]) in text
    assert "t.again" not in text, "the limit is one key"
    assert [k["key"] for k in cli("queues", "show", "skip", "--json").json["blocked_keys"]] == [
        "again"
    ]
    assert cli("queues", "show", "wide", "--json").json["blocked_keys"] == []
    sql(
        "insert into inboxd.declared_types (kind, type, queue) values ('command', 't.http', 'http')"
    )
    assert "http" in {row["queue"] for row in cli("queues", "list", "--json").json["queues"]}
    declared = cli("queues", "show", "http", "--json").json
    assert (declared["pending"], declared["limits"], declared["blocked_keys"]) == (0, {}, [])
    missing = cli("queues", "show", "nowhere")
    assert (missing.code, "no queue 'nowhere'" in missing.err) == (66, True)


def _keys(row: dict[str, Any]) -> dict[str, int]:
    return {held_by: each["keys"] for held_by, each in row["blocked"].items()}
