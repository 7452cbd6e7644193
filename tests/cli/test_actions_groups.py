"""Groups of dead letters by their failure, and the audit of actions."""

import getpass

from tests.cli.conftest import Cli
from tests.cli.dead_letters import Sql, audited, dead, insert, statuses
from tests.support.verdicts import safety


def test_ten_thousand_dead_letters_are_listed_as_three_groups(cli: Cli, sql: Sql) -> None:
    sql(
        """INSERT INTO inboxd.commands (queue, type, status, fingerprint, errors)
           SELECT 'q', 'mail.' || n % 2, 'failed', CASE WHEN n % 10 = 0 THEN 'g2' ELSE 'g1' END,
                  jsonb_build_array(jsonb_build_object('error', 'SMTPError: mailbox ' || n))
             FROM generate_series(1, 10000) n"""
    )
    dead(sql, "events", "g3", type="order.paid")
    found = cli("failures", "list", "--json").json["groups"]
    assert [(g["fingerprint"], g["kind"], g["count"]) for g in found] == [
        ("g1", "command", 9000),
        ("g2", "command", 1000),
        ("g3", "event", 1),
    ]
    assert found[0]["types"] == {"mail.0": 4000, "mail.1": 5000}
    assert found[0]["error"] == "SMTPError: mailbox 9999"
    assert found[0]["first_at"] <= found[0]["last_at"]
    out = cli("failures", "list").out
    assert "9,000" in out
    shown = cli("failures", "show", "g1")
    assert "mail.1 (5,000), mail.0 (4,000)" in shown.out
    assert "inboxd commands replay --group g1" in shown.out
    assert len(cli("failures", "show", "g2", "--json").json["groups"][0]["sample"]) == 10
    assert cli("commands", "dismiss", "--group", "g1", "--json").json["count"] == 9000
    left = cli("failures", "list", "--json").json["groups"]
    assert [g["fingerprint"] for g in left] == ["g2", "g3"]
    gone = cli("failures", "show", "g1")
    assert (gone.code, "no dead letter is in group 'g1'" in gone.err) == (1, True)


def test_group_is_found_by_the_beginning_of_its_name(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands", "5f2c1e0d9a7b3344")
    dead(sql, "commands", "5f2c1e0d9a7b3344")
    dead(sql, "commands", "5fa0000000000000")
    dead(sql, "events", "77aa000000000000")
    shown = cli("failures", "show", "5f2").out
    assert "Group 5f2c1e0d9a7b3344" in shown
    assert "--group 5f2c1e0d9a7b3344" in shown
    assert cli("failures", "show", "7").code == 0
    several = cli("commands", "replay", "--group", "5f")
    assert several.code == 2
    assert "'5f', such as 5f2c1e0d9a7b3344, 5fa0000000000000" in several.err
    nobody = cli("commands", "replay", "--group", "60", "--dry-run")
    assert (nobody.code, "no dead letter is in group '60'" in nobody.err) == (1, True)
    assert cli("commands", "replay", "--group", "5f2", "--json").json["count"] == 2
    assert audited(sql) == [("replay", "commands group=5f2c1e0d9a7b3344", 2)]


def test_actions_by_id_take_dry_run_and_rate(cli: Cli, sql: Sql) -> None:
    first, second = dead(sql, "commands", type="x"), dead(sql, "commands", type="x")
    waits = insert(sql, "commands", type="x")
    dry = cli("commands", "replay", first, second, "--dry-run", "--rate", "5")
    assert dry.code == 0
    assert "2 commands would be replayed." in dry.err
    found = cli("commands", "cancel", waits, "--dry-run", "--json").json
    assert (found["action"], found["count"], found["sample"][0]["id"]) == ("cancel", 1, waits)
    refused = cli("commands", "dismiss", first, waits, "--dry-run")
    assert (refused.code, f"{waits} is pending" in refused.err) == (1, True)
    assert audited(sql) == []
    assert statuses(sql) == {first: "failed", second: "failed", waits: "pending"}
    assert cli("commands", "replay", first, "--rate", "5").code == 0


def test_audit_lists_actions_with_their_actors(cli: Cli, sql: Sql) -> None:
    first, second = dead(sql, "commands"), dead(sql, "events")
    cli("commands", "dismiss", first, "--reason", "sent by hand")
    cli("events", "replay", second)
    found = cli("audit", "--json").json
    assert [(a["action"], a["target"], a["count"]) for a in found["audit"]] == [
        ("replay", f"events {second}", 1),
        ("dismiss", f"commands {first}", 1),
    ]
    assert found["next"] is None
    for wanted in (
        ["--action", "dismiss"],
        ["--target", f"commands {first}"],
        ["--after", found["audit"][0]["id"]],
        ["--actor", getpass.getuser().upper(), "--action", "dismiss", "--since", "1h"],
    ):
        (line,) = cli("audit", *wanted, "--json").json["audit"]
        assert line["reason"] == "sent by hand"
    assert cli("audit", "--actor", "nobody", "--json").json["audit"] == []
    assert "sent by hand" in cli("audit").out


def test_unknown_action_of_the_audit_is_refused(cli: Cli) -> None:
    wrong = cli("audit", "--action", "replai")
    assert (wrong.code, wrong.out) == (2, "")
    assert "'replai' is not a valid action; did you mean 'replay'?" in wrong.err
    assert cli("audit", "--action", "replay twice").code == 2
    far = cli("audit", "--action", "zzz", "--json")
    assert (far.code, far.out) == (2, "")
    assert "valid actions: abort, accept, add, archive, auto, cancel, change, close, " in far.err
    for right in ("erase", "prioritize to -5", "reschedule", "force open", "force", "metrics only"):
        assert cli("audit", "--action", right, "--json").json["audit"] == []


def test_archived_group_is_hidden_until_it_grows(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands", "5f2c1e0d9a7b3344")
    first = dead(sql, "events", "77aa000000000000")
    told = cli("failures", "archive", "77", "--reason", "known")
    assert told.out.strip() == "Archived: group 77aa000000000000, 1 dead letter"
    again = cli("failures", "archive", "77")
    assert (again.code, "archived already" in again.err) == (1, True)

    def listed(*options: str) -> list[str]:
        found = cli("failures", "list", *options, "--json").json["groups"]
        return [group["fingerprint"] for group in found]

    assert listed() == ["5f2c1e0d9a7b3344"]
    shown = cli("failures", "list")
    assert "1 archived group not shown: --archived lists them." in shown.err
    (archived,) = cli("failures", "list", "--archived", "--json").json["groups"]
    assert archived["archived"]["reason"] == "known"
    assert "(known)" in cli("failures", "list", "--archived", "--wide").out
    assert "(known)" in cli("failures", "show", "77").out
    # Actions by its name apply to an archived group too.
    assert cli("events", "replay", "--group", "77", "--dry-run", "--json").json["count"] == 1
    dead(sql, "events", "77aa000000000000")
    with safety():
        assert set(listed()) == {"5f2c1e0d9a7b3344", "77aa000000000000"}
        assert listed("--archived") == []
    assert cli("events", "dismiss", first, "--json").code == 0
    assert cli("failures", "archive", "77").code == 0
    back = cli("failures", "unarchive", "77", "--json")
    assert back.json == {"unarchived": "77aa000000000000", "count": 1, "at_least": False}
    assert cli("failures", "unarchive", "77").code == 1
    assert [line for line in audited(sql) if "archive" in line[0]] == [
        ("archive", "failures 77aa000000000000", 1),
        ("archive", "failures 77aa000000000000", 1),
        ("unarchive", "failures 77aa000000000000", 1),
    ]


def test_archive_notes_of_ended_groups_are_removed(cli: Cli, sql: Sql) -> None:
    for group in ("aa", "bb", "cc"):
        dead(sql, "commands", group)
        assert cli("failures", "archive", group).code == 0
    assert cli("commands", "dismiss", "--group", "aa").code == 0
    dead(sql, "events", "dd")
    assert cli("failures", "archive", "dd").code == 0
    kept = sql("SELECT fingerprint FROM inboxd.archived_failures ORDER BY 1")
    assert [row["fingerprint"] for row in kept] == ["bb", "cc", "dd"]


def test_group_of_events_and_commands_is_replayed_by_name(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands", "aa")
    dead(sql, "commands", "aa")
    dead(sql, "commands", "bb")
    assert "2 commands would be replayed" in cli("failures", "replay", "aa", "--dry-run").err
    done = cli("failures", "replay", "aa", "--reason", "mended", "--json")
    assert done.json == {"action": "replay", "count": 2}
    ordered = cli("failures", "replay", "bb", "--background", "--canary", "--json")
    assert ordered.json["selection"]["group"] == "bb"
    dead(sql, "events", "cc")
    dead(sql, "commands", "cc")
    both = cli("failures", "replay", "cc", "--json")
    assert (both.code, "inboxd events replay --group cc" in both.err) == (2, True)
    assert cli("failures", "replay", "cc").code == 0
    assert cli("failures", "replay", "cc").code == 1
    assert audited(sql) == [
        ("replay", "commands group=aa", 2),
        ("replay", "commands group=bb", 0),
        ("replay", "commands group=cc", 1),
        ("replay", "events group=cc", 1),
    ]
