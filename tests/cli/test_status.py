"""`inboxd status` and `workers`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import asyncpg
import pytest

from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.waiting import patient

Sql = Callable[..., list[asyncpg.Record]]


def _fill(sql: Sql) -> None:
    sql(
        """INSERT INTO inboxd.events (type, topic, run_at)
           SELECT 'a.b', 'orders', now() - interval '90 s' FROM generate_series(1, 12000)"""
    )
    sql("INSERT INTO inboxd.events (type, run_at) VALUES ('later', now() + interval '1 h')")
    sql("INSERT INTO inboxd.events (type) VALUES ('dead'), ('dead')")
    sql("UPDATE inboxd.events SET status = 'failed' WHERE type = 'dead'")
    sql(
        """INSERT INTO inboxd.commands (type, queue, priority)
           SELECT 'c.d', 'q', priority FROM unnest(ARRAY[0, 5, 5, 0, 0]) AS priority"""
    )
    sql("UPDATE inboxd.commands SET status = 'failed' WHERE id = 1")
    sql(
        "INSERT INTO inboxd.commands (type, queue, ordering_key)"
        " SELECT 'c.d', 'q', 'k' FROM generate_series(1, 3)"
    )
    sql("UPDATE inboxd.commands SET line_at = run_at WHERE id = 6")  # it waits for its retry
    sql(
        "INSERT INTO inboxd.commands (type, queue, status, needs) VALUES"
        " ('c.d', 'q', 'waiting', 1), ('c.d', 'q', 'waiting', 2)"
    )
    sql("UPDATE inboxd.commands SET crashes = 1 WHERE id = 2")
    sql("UPDATE inboxd.commands SET status = 'running', worker_id = gen_random_uuid() WHERE id = 4")
    sql(
        """INSERT INTO inboxd.stats_written (minute, kind, lane, type, outcome, after, count,
                  run_total, run_maximum, completion_total, completion_maximum)
           SELECT date_trunc('minute', now() - ago), 'command', 'q', 'c.d', t.*
             FROM (VALUES (interval '0 s', 'succeeded', '', 8, 1.4, 0.5, 240.0, 50.0),
                          (interval '0 s', 'succeeded', 'retry', 2, 0.0, 0.0, 60.0, 60.0),
                          (interval '0 s', 'retried', '', 9, 4.0, 0.7, null, null),
                          (interval '0 s', 'failed', 'replay', 1, 0.0, 0.0, null, null),
                          (interval '0 s', 'deferred', 'retry', 7, 0.0, 0.0, null, null),
                          (interval '2 h', 'succeeded', '', 99, 1.0, 0.5, 990.0, 90.0))
               AS v(ago, o, a, c, rt, rm, ct, cm)
            CROSS JOIN LATERAL (SELECT o, a, c, rt, rm, ct, cm) AS t"""
    )
    sql(
        """INSERT INTO inboxd.workers
                  (id, name, host, pid, version, events, commands, queues, declares, state)
           VALUES (gen_random_uuid(), 'w1', 'h', 1, '0.1', '{a.b}', '{c.d}', '{q}', 'x', 'running'),
                  (gen_random_uuid(), 'w0', 'h', 2, '0.1', '{}', '{}', '{}', 'x', 'stopped')"""
    )


def test_status_counts_lanes_workers_and_throughput(cli: Cli, sql: Sql) -> None:
    _fill(sql)
    found = cli("status", "--json").json
    lanes = {(lane.get("topic") or lane["queue"], lane["type"]): lane for lane in found["lanes"]}
    orders = lanes["orders", "a.b"]
    assert (orders["pending"], orders["due"]) == (found["counted_to"], found["counted_to"])
    assert orders["oldest"] > 89
    later = lanes["default", "later"]
    assert (later["pending"], later["due"], later["oldest"]) == (1, 0, None)
    assert lanes["default", "dead"]["failed"] == 2
    queue = lanes["q", "c.d"]
    assert [queue[key] for key in ("pending", "due", "running", "failed")] == [6, 6, 1, 1]
    assert [queue[key] for key in ("in_line", "unmet")] == [3, 2]
    assert [worker["name"] for worker in found["workers"]] == ["w1"]
    kept = {key for key, lane in lanes.items() if lane.get("kept")}
    assert kept == {("default", "later")}, "the living worker handles the other type"
    # The mean counts executions, not deferred ones.
    (done,) = found["throughput"]
    assert (done["succeeded"], done["retried"], done["failed"]) == (10, 9, 1)
    assert (done["mean"], done["maximum"]) == (0.2, 0.7)
    hour, day = found["completed"]
    assert (hour["hours"], hour["completed"], hour["mean"], hour["maximum"]) == (1, 10, 30, 60)
    assert [hour[key] for key in ("attempts", "reprocessed", "after_retry")] == [20, 3, 2]
    assert [hour[key] for key in ("after_replay", "failed_again")] == [0, 1]
    assert (day["hours"], day["attempts"], day["completed"]) == (24, 119, 109)
    out = cli("status").out
    assert out.startswith("Dead letters: 3 (2 events, 1 command); see: inboxd failures list\n")
    assert "10000+" in out
    assert "200ms" in out
    assert [line for line in out.splitlines() if "hour\tcommand\tc.d\t10\t30s" in line]
    assert "15 %" in out, "3 of 20 attempts"
    assert "67 %" in out, "2 of 3 ended ones"
    assert [line.split()[-1] for line in out.splitlines() if "\tlater\t" in line] == ["kept"]


def test_equal_figures_of_hour_and_day_are_shown_once(cli: Cli, sql: Sql) -> None:
    _fill(sql)
    assert "\nday\tcommand\tc.d\t" in cli("status").out
    sql("DELETE FROM inboxd.stats_written WHERE minute < now() - interval '70 min'")
    assert [row["hours"] for row in cli("status", "--json").json["completed"]] == [1, 24]
    out = cli("status").out
    assert "\nhour\tcommand\tc.d\t" in out
    assert "\nday\t" not in out


def test_workers_lists_living_workers_and_all_with_an_option(cli: Cli, sql: Sql) -> None:
    _fill(sql)
    living = cli("workers", "--json").json["workers"]
    assert [(each["name"], each["queues"]) for each in living] == [("w1", ["q"])]
    assert len(cli("workers", "--all", "--json").json["workers"]) == 2
    assert "w1" in cli("workers").out
    sql("UPDATE inboxd.workers SET served_topics = '{rewards,default}'")
    assert cli("workers", "--json").json["workers"][0]["topics"] == ["rewards", "default"]
    assert "rewards, default" in cli("workers").out
    assert [each["leads"] for each in living] == [False]
    sql(
        "UPDATE inboxd.leases SET holder = (SELECT id FROM inboxd.workers WHERE name = 'w1')"
        " WHERE name = 'leader'"
    )
    assert [each["leads"] for each in cli("workers", "--json").json["workers"]] == [True]
    assert [each["leads"] for each in cli("status", "--json").json["workers"]] == [True]
    assert (
        "succeeded: rows; an event has one in each of its topics" in cli("status", "--aligned").out
    )


def test_status_of_an_empty_inbox(cli: Cli) -> None:
    found = cli("status", "--json").json
    assert (found["lanes"], found["workers"], found["throughput"]) == ([], [], [])
    assert cli("status").code == 0


def test_watch_repeats_until_interrupted(database: Database) -> None:
    command = [sys.executable, "-m", "inboxd", "status", "--watch", "--interval", "0.5", "--json"]
    environment = {"INBOXD_DATABASE__DSN": database.dsn, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(2):
            assert json.loads(process.stdout.readline())["lanes"] == []
        process.send_signal(signal.SIGINT)
        assert process.wait(patient()) == 130
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("options", [[], ["--json"], ["--watch", "--json"]])
def test_closed_pipe_is_not_a_lost_connection(database: Database, options: list[str]) -> None:
    """The reader ends early, as in `inboxd status | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "inboxd", "status", *options],
            env={"INBOXD_DATABASE__DSN": database.dsn, "PATH": "/usr/bin:/bin"},
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
            timeout=patient(60),
        )
    assert (done.returncode, done.stderr) == (1, b"")
