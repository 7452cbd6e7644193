"""`inboxd events why` and `inboxd commands why`: the sentence, its causes, and commands to run."""

from collections.abc import Callable
from typing import Any

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]


def test_why_lists_the_causes_of_a_command_in_order(cli: Cli, sql: Sql) -> None:
    ((dead,),) = sql(
        "insert into inboxd.commands (queue, type, ordering_key, status, line_at) values"
        " ('email', 'mail.send', 'it''s', 'failed', now()) returning id"
    )
    ((id_,),) = sql(
        "insert into inboxd.commands (queue, type, ordering_key, run_at) values"
        " ('email', 'mail.send', 'it''s', now() + interval '1 hour') returning id"
    )
    assert cli("pause", "queue", "email", "--reason", "provider down", "--force").code == 0
    found = cli("commands", "why", id_, "--json").json
    assert [each["cause"] for each in found["causes"]] == ["paused", "nobody", "behind", "due"]
    assert (found["id"], found["type"], found["status"]) == (id_, "mail.send", "waiting")
    paused, _, behind, _ = found["causes"]
    assert paused["reason"] == "provider down"
    assert paused["facts"]["queue"] == {"kind": "queue", "name": "email"}
    assert behind["facts"] == {"row": {"kind": "command", "id": dead, "type": "mail.send"}}
    sentence = found["sentence"]
    assert sentence.startswith("Its queue email is paused: by ")
    assert "(provider down). And then: No worker is running. And then: Its ordering key" in sentence

    told = cli("commands", "why", id_).out
    assert told.splitlines()[0] == sentence
    assert "inboxd paused" in told
    assert f"inboxd commands why {dead}" in told
    assert sentence in cli("commands", "show", id_).out
    assert cli("commands", "show", id_, "--json").json["why"]["causes"] == found["causes"]


def test_why_takes_the_uuid_of_an_event(cli: Cli, sql: Sql) -> None:
    ((id_, uuid),) = sql("insert into inboxd.events (type) values ('a.b') returning id, event_id")
    assert cli("events", "why", uuid).out == cli("events", "why", id_).out
    found = cli("events", "why", uuid, "--json").json
    assert found["sentence"] == "No worker is running."


def test_why_of_settled_and_unknown_rows(cli: Cli, sql: Sql) -> None:
    ((id_,),) = sql("insert into inboxd.commands (queue, type) values ('q', 'a.b') returning id")
    assert cli("commands", "cancel", id_).code == 0
    found = cli("commands", "why", id_, "--json").json
    assert (found["sentence"], found["causes"]) == ("It has ended: cancelled.", [])
    assert cli("commands", "why", id_).out.strip() == "It has ended: cancelled."
    assert cli("commands", "show", id_, "--json").json["why"] is None
    missing = cli("commands", "why", 4711)
    assert "no command 4711" in missing.err
    assert missing.code == cli("commands", "show", 4711).code != 0


def test_doctor_and_why_agree_about_a_worker_without_a_row(cli: Cli, sql: Sql) -> None:
    """Reapers do not find a worker without a row, so neither text promises a reap."""
    ((id_,),) = sql(
        "insert into inboxd.commands (queue, type, status, worker_id, started_at) values"
        " ('email', 'mail.send', 'running', gen_random_uuid(), now() - interval '1 day')"
        " returning id"
    )
    assert "is gone, and no other worker takes back its commands" in cli("commands", "why", id_).out
    (stuck,) = [
        each
        for each in cli("doctor", "--json").json["findings"]
        if each["subject"] == "stuck leases"
    ]
    assert (stuck["verdict"], "docs/why.md" in stuck["remedy"]) == ("critical", True)
