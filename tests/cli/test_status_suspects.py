"""Suspects, which are commands that ran on a worker when it died, in status, show and doctor."""

from collections.abc import Callable

import asyncpg

from tests.cli.conftest import Cli

Sql = Callable[..., list[asyncpg.Record]]

_DIED = (
    "UPDATE inboxd.commands SET status = 'pending', worker_id = NULL, crashes = crashes + 1,"
    " lone_crashes = $2, errors = jsonb_build_array(jsonb_build_object("
    "   'at', now(), 'error', 'WorkerDied: as told', 'worker', worker_id, 'process', 'host1:77'))"
    " WHERE id = any($1)"
)


def test_suspects_are_reported(cli: Cli, sql: Sql) -> None:
    sql("INSERT INTO inboxd.commands (type) SELECT 'c.d' FROM generate_series(1, 5)")
    none = cli("status")
    assert "Suspects" not in none.out
    assert cli("status", "--json").json["suspects"]["groups"] == 0
    assert cli("commands", "show", 1, "--json").json["suspect"] is None
    for number, held in ((1, [1, 2, 3]), (2, [4])):
        sql(
            "UPDATE inboxd.commands SET status = 'running', worker_id = $1 WHERE id = any($2)",
            f"00000000-0000-0000-0000-{number:012}",
            held,
        )
        sql(_DIED, held, None if number == 1 else 1)
    found = cli("status", "--json").json["suspects"]
    counts = [found[name] for name in ("waiting", "running", "alone", "groups")]
    assert counts == [4, 0, 1, 2]
    assert "\nSuspects: " in "\n" + cli("status").out
    shown = cli("commands", "show", 2, "--json").json
    assert shown["suspect"] == {
        "died_on": "host1:77",
        "others": 2,
        "alone": False,
        "deaths_alone": 0,
    }
    assert "suspect_group" not in shown
    out = " ".join(cli("commands", "show", 2).out.split())
    assert "Suspect: it was running on worker host1:77 when the worker died." in out
    assert "It runs with 2 others" in out
    assert "runs alone; worker deaths while it ran alone: 1" in cli("commands", "show", 4).out
    sql("UPDATE inboxd.commands SET run_at = now() + interval '1 h' WHERE id = 3")
    for gone, told in ((1, "with 1 other of its group"), (3, "It runs beside ordinary")):
        sql("UPDATE inboxd.commands SET suspect_group = NULL WHERE id = $1", gone)
        assert told in " ".join(cli("commands", "show", 2).out.split())
    sql(
        "UPDATE inboxd.commands SET suspect_group = s.suspect_group FROM inboxd.commands s"
        " WHERE s.id = 2 AND inboxd.commands.id IN (1, 3)"
    )
    report = cli("doctor").out
    assert "4 commands in 2 groups ran on a worker when it died" in " ".join(report.split())
    # Paused commands, and commands that are not due, are not late.
    long_ago = "UPDATE inboxd.commands SET updated_at = %s, run_at = %s WHERE id = 2"
    day = "now() - interval '1 d'"
    sql(long_ago % (day, day))
    assert _verdict(cli) == "warning"
    sql(long_ago % (day, "now() + interval '1 h'"))
    assert _verdict(cli) == "notice"
    sql(long_ago % (day, day))
    assert cli("pause", "type", "c.d", "--force").code == 0
    assert _verdict(cli) == "notice"


def _verdict(cli: Cli) -> str:
    found = cli("doctor", "--json").json["findings"]
    return str(next(each["verdict"] for each in found if each["subject"] == "suspects"))
