"""`inboxd status --watch`: sparklines of the last hour and bars of backlogs, on any terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from inboxd.cli import watching
from tests.cli.conftest import Cli
from tests.cli.counted import count
from tests.support import Database
from tests.support.waiting import patient

Sql = Callable[..., list[Any]]

pytestmark = pytest.mark.usefixtures("hour")


@pytest.fixture
def hour(sql: Sql) -> None:
    """Write the last hour: events arrive and end, commands only wait."""
    count(sql, "1 min", 70)
    count(sql, "1 min", 7, outcome="failed")
    count(sql, "1 min", 40, outcome="retried")
    sql(
        """insert into inboxd.samples
           select now() - n * interval '1 min', 1000 - 10 * n, 500, 60 - n, 0, 0, 4, 0, null,
                  2, 0, 0, 0, null, 0, 0, 0, 0, 0, 1, true
             from generate_series(0, 29) n"""
    )
    sql(
        "insert into inboxd.commands (type, queue) select 'mail.send', 'email'"
        " from generate_series(1, 40)"
    )
    sql("insert into inboxd.events (type, topic) values ('a.b', 'orders'), ('c.d', 'orders')")


def test_last_hour_has_arrivals_and_ends(cli: Cli) -> None:
    found = cli("status", "--json").json
    events, commands = found["last_hour"]
    assert (events["kind"], len(events["arrived"]), len(events["ended"])) == ("event", 61, 61)
    assert sum(events["ended"]) == 77, "retried executions have not ended"
    assert events["ended"][-2] == 77
    assert events["arrived"][0] is None
    assert events["arrived"][-2] == 10
    assert (sum(commands["ended"]), commands["arrived"][-2]) == (0, 0)
    assert events["since"] < found["sample"]["at"]


def test_last_hour_is_drawn_as_lines_and_bars(cli: Cli) -> None:
    flows, backlog = watching.drawn(cli("status", "--json").json)
    lines = list(flows.lines(80))
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines[2:6]] == [
        ["events", "in"],
        ["events", "out"],
        ["commands", "in"],
        ["commands", "out"],
    ]
    assert "█" in lines[2]
    assert lines[3].endswith("77")
    assert lines[3].count("█") == 1
    assert "  " in lines[2].strip(), "a blank is no 0"
    assert any("are blank: no sample was taken" in line for line in lines)
    bars = list(backlog.lines(80))
    assert bars[0] == "Backlog"
    assert [line.count("█") for line in bars[3:5]] == [30, 2]
    assert [line.split()[:3] for line in bars[3:5]] == [
        ["command", "email", "40"],
        ["event", "orders", "2"],
    ]


def test_lanes_beyond_the_limit_are_one_bar(cli: Cli, sql: Sql) -> None:
    sql(
        "insert into inboxd.commands (type, queue)"
        " select 'x', 'q' || n from generate_series(1, 50) n"
    )
    _, backlog = watching.drawn(cli("status", "--json").json)
    lines = list(backlog.lines(80))
    assert len(lines) == 3 + 13
    assert "(40 others)" in lines[-1]
    assert " 40 " in lines[-1]


def test_only_a_bar_with_a_lane_at_the_bound_has_a_plus() -> None:
    lanes = [
        {"kind": "command", "queue": queue, "type": type_, "pending": rows}
        for queue, type_, rows in (("a", "x", 10_000), ("b", "x", 9_000), ("b", "y", 9_000))
    ]
    _, backlog = watching.drawn({"last_hour": [], "lanes": lanes, "counted_to": 10_000})
    rows = {line.split()[1]: line.split()[2] for line in backlog.lines(80) if "command" in line}
    assert rows == {"a": "10,000+", "b": "18,000"}


def environment(database: Database, **more: str) -> dict[str, str]:
    return {"INBOXD_DATABASE__DSN": database.dsn, "PATH": "/usr/bin:/bin", "COLUMNS": "80", **more}


def watched(database: Database, **more: str) -> str:
    """Run `status --watch` on a terminal until it has printed twice; returns the output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "inboxd", "status", "--watch", "--interval", "0.5"]
    with subprocess.Popen(
        command, env=environment(database, **more), stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        seen, until = b"", monotonic() + patient()
        try:
            while seen.count(b"Backlog") < 2 and monotonic() < until:
                if select.select([ours], [], [], 1)[0]:
                    seen += os.read(ours, 65536)
            process.send_signal(signal.SIGINT)
            while select.select([ours], [], [], patient())[0]:
                try:
                    if not os.read(ours, 65536):
                        break
                except OSError:  # the process has closed the terminal
                    break
            assert process.wait(patient()) == 130
        finally:
            process.kill()
            os.close(ours)
    return seen.decode(more.get("PYTHONIOENCODING", "utf-8"))


def test_dumb_terminal_gets_one_screen_below_the_other(
    database: Database,
) -> None:
    seen = watched(database, TERM="dumb", PYTHONIOENCODING="utf-8")
    assert "\x1b" not in seen, "no colours and no moves of the cursor"
    assert seen.count("Backlog") >= 2
    assert "--- 20" in seen
    lines = seen.replace("\r", "").splitlines()
    assert [line for line in lines if line.startswith("events out") and "█" in line]
    assert max(len(line) for line in lines if not line.startswith("(no room")) <= 80


def test_terminal_without_unicode_gets_ascii(database: Database) -> None:
    seen = watched(database, TERM="dumb", PYTHONIOENCODING="ascii")
    assert seen.isascii()
    assert "?" not in seen
    (line, *_) = [line for line in seen.splitlines() if line.startswith("command  email")]
    assert line.count("#") == 30


def test_capable_terminal_is_redrawn_without_colours(database: Database) -> None:
    seen = watched(database, TERM="xterm", PYTHONIOENCODING="utf-8")
    assert "\x1b[?1049h" in seen, "the alternate screen"
    assert "\x1b[3" not in seen
    assert "█" in seen


def test_pipe_gets_one_screen_below_the_other(database: Database) -> None:
    command = [sys.executable, "-m", "inboxd", "status", "--watch", "--interval", "0.5"]
    with subprocess.Popen(
        command, env=environment(database), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        looks = 0
        for line in process.stdout:
            looks += line.startswith(b"--- 20")
            if looks == 2:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(patient()) == 130
