"""`inboxd endpoints`: changes and their audit, secrets, deliveries."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Cli

Sql = Callable[..., list[Any]]
SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
ADD = ("endpoints", "add", "acme", "https://acme.example/hooks", "--type", "user.*")


@pytest.fixture
def acme(cli: Cli) -> str:
    """Add an endpoint; returns its secret."""
    secret: str = cli(*ADD, "--json").json["secret"]
    return secret


def audited(sql: Sql) -> list[tuple[str, str]]:
    return [(row["action"], row["target"]) for row in sql("select * from inboxd.audit order by id")]


def test_secret_is_shown_only_when_it_is_made(cli: Cli, sql: Sql) -> None:
    ran = cli(*ADD, "--tenant", "acme", "--ordered", "--rate", "10/s", "--disable-after", "2d")
    assert "Endpoint acme added." in ran.out
    (row,) = sql("select * from inboxd.endpoints")
    (stored,) = json.loads(row["secrets"])
    assert f"shown only now: {stored['secret']}" in ran.out
    assert (row["tenant"], row["ordered"], row["rate"]) == ("acme", True, "10/s")
    assert row["disable_after"].days == 2
    for command in ("show acme", "show acme --json", "list", "list --json"):
        out = cli("endpoints", *command.split()).out
        assert "https://acme.example/hooks" in out
        assert stored["secret"] not in out
    assert audited(sql) == [("add to acme.example", "endpoint acme")]


def test_endpoint_gets_emitted_events_only_with_events_option(cli: Cli, sql: Sql) -> None:
    asked = "select type, tenant from inboxd.emitted_types"
    cli(*ADD)
    assert not cli("endpoints", "show", "acme", "--json").json["events"]
    assert "emitted events" not in cli("endpoints", "show", "acme").out
    assert sql(asked) == []
    cli("endpoints", "change", "acme", "--events")
    assert "emitted events too" in cli("endpoints", "show", "acme").out
    assert [tuple(row) for row in sql(asked)] == [("user.*", "")]
    cli("endpoints", "change", "acme", "--no-events")
    assert sql(asked) == []
    cli("endpoints", "remove", "acme", "--yes")
    assert cli(*ADD, "--events", "--json").json["events"]
    assert [tuple(row) for row in sql(asked)] == [("user.*", "")]


def test_given_secret_is_not_shown(cli: Cli, sql: Sql, tmp_path: Any) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    ran = cli(*ADD, "--secret-file", str(file), "--json")
    assert SECRET not in ran.out
    assert "secret" not in ran.json
    assert json.loads(sql("select secrets from inboxd.endpoints")[0][0])[0]["secret"] == SECRET


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("a b", "https://a.example", "--type", "*"), "the name 'a b' must have at most"),
        (("a", "ftp://a.example", "--type", "*"), "the URL must begin with https://"),
        (("a", "https://me:pw@a.example", "--type", "*"), "the URL must hold no user"),
        (("a", "http://127.1/in", "--type", "*"), "an IPv4 address in four numbers"),
        (("a", "https://a.example", "--type", "us*"), "the type 'us*' must be a type such as"),
        (("a", "https://a.example"), "the endpoint has no types"),
        (("a", "https://a.example", "--type", "*", "--rate", "fast"), "a rate is a number per"),
        (("a", "https://a.example", "--type", "*", "--disable-after", "0s"), "longer than 0s"),
    ],
)
def test_invalid_endpoints_are_refused(cli: Cli, arguments: tuple[str, ...], problem: str) -> None:
    ran = cli("endpoints", "add", *arguments)
    assert (ran.code, problem in ran.err) == (2, True), ran.err
    assert "pw@" not in ran.err


@pytest.mark.parametrize("host", ["10.1.2.3", "0.0.0.0", "[::1]"])  # noqa: S104 - a URL's
def test_private_address_is_remarked_on(
    cli: Cli, acme: str, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    change = ("endpoints", "change", "acme", "--url", f"http://{host}/in")
    told = f"{host.strip('[]')} is not a public address: workers send nothing to it unless"
    for line in (change, ("endpoints", "add", "own", f"http://{host}/in", "--type", "*")):
        ran = cli(*line)
        assert (ran.code, told in ran.err, "outbound.webhooks.allow" in ran.err) == (0, True, True)
    assert "public" not in cli("endpoints", "change", "acme", "--rate", "5/m").err
    assert "public" not in cli(*change[:-1], "https://8.8.8.8/in").err
    monkeypatch.setenv("INBOXD_OUTBOUND__WEBHOOKS__ALLOW", '["0.0.0.0/0", "::/0"]')
    assert "public" not in cli(*change).err


def test_taken_or_unknown_name_is_refused(cli: Cli, acme: str) -> None:
    ran = cli(*ADD)
    assert (ran.code, "there is an endpoint 'acme' already" in ran.err) == (1, True)
    ran = cli("endpoints", "show", "acne")
    assert (ran.code, "did you mean 'acme'" in ran.err) == (66, True)


def test_endpoint_is_changed(cli: Cli, sql: Sql, acme: str) -> None:
    cli(
        *("endpoints", "change", "acme", "--url", "https://new.example", "--type", "a.b"),
        *("--type", "c.*", "--rate", "5/m", "--concurrency", "3", "--ordered"),
    )
    (row,) = sql("select * from inboxd.endpoints")
    assert (row["url"], row["types"]) == ("https://new.example", ["a.b", "c.*"])
    assert (row["rate"], row["concurrency"], row["ordered"], row["version"]) == ("5/m", 3, True, 2)
    cli("endpoints", "change", "acme", "--rate", "none", "--concurrency", "0", "--unordered")
    (row,) = sql("select * from inboxd.endpoints")
    assert (row["rate"], row["concurrency"], row["ordered"]) == (None, None, False)
    assert row["disable_after"].days == 5
    assert cli("endpoints", "change", "acme").code == 2
    assert audited(sql)[1][0] == "change to concurrency, ordered, rate, types, url"


def test_endpoint_is_disabled_and_enabled(cli: Cli, sql: Sql, acme: str) -> None:
    cli("endpoints", "disable", "acme", "--reason", "they left")
    (row,) = sql("select * from inboxd.endpoints")
    assert (row["enabled"], row["disabled_by"], row["disabled_reason"]) == (
        False,
        "operator",
        "they left",
    )
    assert "they left" in cli("endpoints", "list", "--failing").out
    again = cli("endpoints", "disable", "acme")
    assert (again.code, "disabled already: they left" in again.err) == (1, True)
    ran = cli("endpoints", "send", "acme")
    assert (ran.code, "is disabled (they left)" in ran.err) == (1, True)
    sql("update inboxd.endpoints set failing_since = now()")
    cli("endpoints", "enable", "acme")
    (row,) = sql("select * from inboxd.endpoints")
    assert (row["enabled"], row["disabled_at"], row["failing_since"]) == (True, None, None)
    assert cli("endpoints", "enable", "acme").code == 1
    assert cli("endpoints", "list", "--failing", "--json").json == {"endpoints": []}


def test_rotated_secret_signs_beside_the_old_one(cli: Cli, sql: Sql, acme: str) -> None:
    new = cli("endpoints", "rotate", "acme", "--json").json["secret"]
    (row,) = sql("select secrets from inboxd.endpoints")
    first, second = json.loads(row["secrets"])
    assert (first["secret"], second["secret"]) == (new, acme)
    assert (first.get("expires_at"), second["expires_at"] is None) == (None, False)
    hours = "select extract(epoch from $1::text::timestamptz - now())::float8 / 3600"
    assert 23.9 < sql(hours, second["expires_at"])[0][0] <= 24
    shown = cli("endpoints", "show", "acme", "--json").json
    assert (shown["secrets"], shown["secret_expires_at"] is None) == (2, False)
    for _ in range(6):
        cli("endpoints", "rotate", "acme", "--keep", "1h")
    (row,) = sql("select secrets from inboxd.endpoints")
    assert len(json.loads(row["secrets"])) == 5
    ran = cli("endpoints", "rotate", "acme", "--keep", "0s")
    assert "the old one no longer signs" in ran.out
    assert len(json.loads(sql("select secrets from inboxd.endpoints")[0][0])) == 1


def test_endpoint_is_removed(cli: Cli, sql: Sql, acme: str) -> None:
    assert cli("endpoints", "remove", "acme", "--dry-run").code == 0
    assert sql("select from inboxd.endpoints")
    assert "removed" in cli("endpoints", "remove", "acme", "--yes").out
    assert not sql("select from inboxd.endpoints")
    assert audited(sql)[-1] == ("remove", "endpoint acme")


def test_endpoint_of_settings_is_changed_only_there(cli: Cli, sql: Sql, acme: str) -> None:
    sql("update inboxd.endpoints set managed_by = 'settings'")
    for command in ("change acme --rate 1/s", "rotate acme", "remove acme --yes"):
        ran = cli("endpoints", *command.split())
        assert (ran.code, "declare the endpoint 'acme' in [endpoints.acme]" in ran.err) == (1, True)
    assert cli("endpoints", "disable", "acme").code == 0
    assert cli("endpoints", "enable", "acme").code == 0
    sql("update inboxd.endpoints set undeclared_at = now()")
    assert cli("endpoints", "remove", "acme", "--yes").code == 0


def test_webhook_test_is_sent_for_any_types(cli: Cli, sql: Sql, acme: str) -> None:
    sent = cli("endpoints", "send", "acme", "--json").json
    assert (sent["endpoint"], sent["type"]) == ("acme", "webhook.test")
    cli("endpoints", "send", "acme", "order.paid", '{"n": 1}')
    rows = sql("select * from inboxd.commands order by id")
    assert [row["queue"] for row in rows] == ["webhooks.acme"] * 2
    assert json.loads(rows[1]["payload"])["data"] == {"n": 1}
    listed = cli("endpoints", "deliveries", "acme", "--json").json["deliveries"]
    assert [(each["id"], each["message_type"]) for each in listed] == [
        (rows[1]["id"], "order.paid"),
        (rows[0]["id"], "webhook.test"),
    ]
    assert listed[1]["message_id"] == sent["message_id"]
    assert audited(sql)[1:] == [
        ("send to webhook.test", "endpoint acme"),
        ("send to order.paid", "endpoint acme"),
    ]


def delivered(cli: Cli, sql: Sql, result: str = '{"status": 204}') -> int:
    """Make a delivery that succeeded; returns its number."""
    id_: int = cli("endpoints", "send", "acme", "--json").json["id"]
    sql(
        "update inboxd.commands set status = 'running', worker_id = command_id, fence = 1"
        f" where id = {id_}"
    )
    sql(
        "select inboxd.settle_command(id, fence, worker_id, 0.1, $1::text::jsonb)"
        f" from inboxd.commands where id = {id_}",
        result,
    )
    return id_


def test_successful_delivery_is_resent_with_its_message_id(cli: Cli, sql: Sql, acme: str) -> None:
    id_ = delivered(cli, sql)
    assert "\t204" in cli("endpoints", "deliveries", "acme").out
    resent = cli("endpoints", "resend", "acme", str(id_), "--reason", "they lost it", "--json").json
    (new,) = resent["new_ids"]
    (row,) = sql("select * from inboxd.commands")
    (old,) = sql("select * from inboxd.commands_history")
    assert (row["id"], row["replay_of"], row["origin_kind"]) == (new, id_, "replay")
    assert row["payload"] == old["payload"]
    assert row["command_id"] != old["command_id"]
    assert audited(sql)[-1] == ("resend", f"commands {id_} of endpoint acme")
    (replay,) = sql("select * from inboxd.replays")
    assert (replay["old_id"], replay["new_id"], replay["reason"]) == (id_, new, "they lost it")


def test_failed_deliveries_are_replayed(cli: Cli, sql: Sql, acme: str) -> None:
    one, two = (cli("endpoints", "send", "acme", "--json").json["id"] for _ in range(2))
    sql("update inboxd.commands set status = 'failed', errors = '[{\"error\": \"503\"}]'")
    listed = cli("endpoints", "deliveries", "acme", "--status", "failed", "--json").json
    assert [each["error"] for each in listed["deliveries"]] == ["503", "503"]
    cli("endpoints", "resend", "acme", str(one))
    assert (
        "1 command would be replayed"
        in cli("endpoints", "resend", "acme", "--failed", "--dry-run").err
    )
    cli("endpoints", "resend", "acme", "--failed", "--since", "1h")
    rows = sql("select replay_of, status from inboxd.commands order by id")
    assert [(row["replay_of"], row["status"]) for row in rows] == [
        (one, "pending"),
        (two, "pending"),
    ]


def test_only_ended_deliveries_of_the_endpoint_are_resent(cli: Cli, sql: Sql, acme: str) -> None:
    waiting = cli("endpoints", "send", "acme", "--json").json["id"]
    ran = cli("endpoints", "resend", "acme", str(waiting))
    assert (ran.code, f"delivery {waiting} has not ended" in ran.err) == (1, True)
    other = sql("select id from inboxd.send_command('a.b', queue => 'webhooks.acme')")[0]["id"]
    ran = cli("endpoints", "resend", "acme", str(other))
    assert (ran.code, f"has no delivery {other}" in ran.err) == (1, True)
    for wrong in ((), ("7", "--failed"), ("7", "--since", "1h")):
        assert cli("endpoints", "resend", "acme", *wrong).code == 2
    assert cli("endpoints", "resend", "nobody", "--failed").code == 66
