"""`inboxd breakers`: lists, shows and forces them; rows and queues name the ones they wait for."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def known(sql: Sql) -> None:
    """Make an open breaker of a command, an event and a topic, and a closed one."""
    sql(
        "insert into inboxd.breakers (name, state, opens, open_until, reason, uses) values "
        "('brevo', 'open', 2, now() + interval '90 seconds', 'ConnectionError: refused', "
        "array['command mail.send', 'event user.created', 'topic mails']), "
        "('bank', 'closed', 0, null, null, '{}')"
    )


def test_breakers_are_listed_and_shown(cli: Cli) -> None:
    listed = cli("breakers", "list", "--json").json["breakers"]
    assert [(each["name"], each["state"], each["opens"]) for each in listed] == [
        ("bank", "closed", 0),
        ("brevo", "open", 2),
    ]
    assert 80 < listed[1]["rest"] <= 90
    out = cli("breakers", "show", "brevo").out
    assert "ConnectionError: refused" in out
    assert "command mail.send, event user.created, topic mails" in out
    ran = cli("breakers", "show", "brevoo")
    assert (ran.code != 0, "did you mean 'brevo'" in ran.err) == (True, True)


@pytest.mark.parametrize(
    ("command", "mode", "told"),
    [
        ("open", "open", "forced open"),
        ("close", "closed", "forced closed"),
        ("metrics-only", "metrics_only", "metrics only"),
    ],
)
def test_breaker_is_forced_and_made_automatic_again(
    cli: Cli, sql: Sql, command: str, mode: str, told: str
) -> None:
    assert f"Breaker brevo: {told}" in cli("breakers", command, "brevo", "--reason", "why not").out
    (row,) = sql("select * from inboxd.breakers where name = 'brevo'")
    assert (row["mode"], row["state"], row["version"]) == (mode, "closed", 2)
    assert row["forced_for"] == "why not"
    again = cli("breakers", command, "brevo")
    assert (again.code != 0, "already" in again.err) == (True, True)
    cli("breakers", "auto", "brevo")
    (row,) = sql("select * from inboxd.breakers where name = 'brevo'")
    # A breaker that was forced open lets a probe pass before it closes.
    assert (row["mode"], row["state"]) == ("auto", "open" if mode == "open" else "closed")
    audited = [each["target"] for each in sql("select target from inboxd.audit order by id")]
    assert audited == ["breaker brevo"] * 2


def test_breaker_of_a_queue_is_shown_for_all_its_commands(cli: Cli, sql: Sql) -> None:
    sql("update inboxd.breakers set uses = array['queue q'] where name = 'brevo'")
    sql("insert into inboxd.commands (type, queue) values ('mail.other', 'q'), ('mail.other', 'r')")
    lanes = cli("status", "--json").json["lanes"]
    assert {lane["queue"]: lane["breaker"] for lane in lanes} == {"q": True, "r": False}
    (id_,) = [row["id"] for row in sql("select id from inboxd.commands where queue = 'q'")]
    shown = cli("commands", "show", id_, "--json").json["breakers"]
    assert [each["name"] for each in shown] == ["brevo"]


def test_breaker_of_a_command_is_shown_in_status_row_topic_and_doctor(cli: Cli, sql: Sql) -> None:
    sql("insert into inboxd.topics (name, mode, source) values ('mails', 'single', 'plugin shop')")
    sql("insert into inboxd.commands (type, queue) values ('mail.send', 'q'), ('mail.other', 'q')")
    found = cli("status", "--json").json
    assert [each["name"] for each in found["breakers"]] == ["brevo"]
    assert {lane["type"]: lane["breaker"] for lane in found["lanes"]} == {
        "mail.send": True,
        "mail.other": False,
    }
    assert "Breakers that are not closed" in cli("status").out
    (id_,) = [row["id"] for row in sql("select id from inboxd.commands where type = 'mail.send'")]
    shown = cli("commands", "show", id_, "--json").json["breakers"]
    assert [each["name"] for each in shown] == ["brevo"]
    assert "brevo" in cli("commands", "show", id_).out
    assert "brevo (open)" in cli("topics", "show", "mails").out
    findings = cli("doctor", "--json").json["findings"]
    (told,) = [each for each in findings if each["subject"] == "breakers"]
    assert told["verdict"] == "warning"
    assert "ConnectionError: refused" in told["found"]
