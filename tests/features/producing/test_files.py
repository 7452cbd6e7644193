"""`inboxd emit --file` and `send --file`: exactly once, and broken lines by their number."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import asyncpg
import pytest

from inboxd.features.producing import store
from inboxd.features.producing.json_lines import LONGEST
from inboxd.store.session import Session
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

Sql = Callable[..., list[asyncpg.Record]]


def lines_of(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def numbered(count: int) -> str:
    return lines_of(*({"type": "a.b", "payload": {"n": n}} for n in range(1, count + 1)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a file of 2,500 events."""
    found = tmp_path / "events.jsonl"
    found.write_text(numbered(2_500))
    return found


def written(sql: Sql, table: str = "events") -> list[int]:
    rows = sql(f"SELECT (payload ->> 'n')::int FROM inboxd.{table} ORDER BY id")
    return [row[0] for row in rows]


def test_file_is_written_in_order_and_once(cli: Cli, sql: Sql, file: Path) -> None:
    first = cli("emit", "--file", file, "--force", "--json")
    counts = {"written": 2_500, "duplicates": 0, "dead_letters": 0, "broken": 0}
    assert first.json == {"before": 0, "lines": 2_500, **counts, "mistakes": [], "finished": True}
    assert written(sql) == list(range(1, 2_501))
    assert len(sql("SELECT DISTINCT xmin::text FROM inboxd.events")) == 3, (
        "1,000 lines per transaction"
    )
    again = cli("emit", "--file", file, "--force")
    assert (again.code, again.err) == (0, "")
    assert again.out.strip() == (
        "0 events written, up to line 2,500; lines 1 to 2,500 were already written"
    )
    once_more = cli("emit", "--file", file, "--force", "--name", "again", "--json")
    assert once_more.json["written"] == 2_500


def test_line_takes_all_options_of_the_client(cli: Cli, sql: Sql) -> None:
    uuid = "018f3b5e-0000-7000-8000-000000000001"
    event = {
        "type": "a.b",
        "payload": {"n": 1},
        "event_id": uuid,
        "topic": "t",
        "source": "s",
        "tenant": "x",
        "entity_type": "e",
        "entity_id": "7",
        "headers": {"h": "1"},
        "schema_version": 2,
        "occurred_at": "2026-01-31T08:00:00Z",
        "dedup_key": None,
        "run_at": "2030-01-31T08:00:00+01:00",
        "correlation_id": "c",
        "causation_id": uuid,
        "mode": "sequential",
        "ordering_key": "k",
        "traceparent": "tp",
    }
    command = {
        "type": "c.d",
        "payload": [1],
        "command_id": uuid,
        "queue": "q",
        "priority": -3,
        "deadline": "2030-01-31T08:00:00Z",
        "max_attempts": 4,
        "unique_key": "u",
        "on_conflict": "reject",
    }
    assert cli("emit", "--file", "-", "--force", stdin=lines_of(event)).code == 0
    assert cli("send", "--file", "-", "--force", stdin=lines_of(command)).code == 0
    (row,) = sql("SELECT * FROM inboxd.events")
    assert (str(row["event_id"]), row["topic"], row["mode"]) == (uuid, "t", "sequential")
    assert (row["tenant"], json.loads(row["headers"])) == ("x", {"h": "1"})
    (row,) = sql("SELECT * FROM inboxd.commands")
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("q", -3, 4)
    taken = cli("send", "--file", "-", "--force", stdin=lines_of({**command, "command_id": None}))
    assert taken.code == 65
    assert "line 1:" in taken.err
    assert "unique key" in taken.err


def test_numbers_keep_all_digits(cli: Cli, sql: Sql) -> None:
    line = '{"type": "a.b", "payload": {"n": 12345678901234567890123.10, "m": 1e2}}'
    assert cli("emit", "--file", "-", "--force", stdin=line).code == 0
    (row,) = sql("SELECT payload::text FROM inboxd.events")
    assert row[0] == '{"m": 100, "n": 12345678901234567890123.10}'


GOOD = '{"type": "a.b", "payload": {"n": 1}}'


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ('{"type": "a.b"', "it is not valid JSON"),
        ('{"type": "a.b", "payload": 1e400}', "it is not valid JSON"),
        ('["a.b"]', "it is not a JSON object"),
        ('{"typ": "a.b"}', "unknown key 'typ'; did you mean 'type'?"),
        ('{"payload": {}}', "it has no type"),
        ('{"type": ""}', "type has 0 bytes"),
        ('{"type": 7}', "type must be a str, not int"),
        ('{"type": "a.b", "event_id": "tiptoe"}', "event_id is not a uuid"),
        ('{"type": "a.b", "run_at": "tiptoe"}', "run_at is not a time in ISO 8601"),
        ('{"type": "a.b", "run_at": "2026-01-31T08:00"}', "run_at has no time zone"),
        ('{"type": "a.b", "schema_version": 0}', "schema_version must be 1 or more"),
        ('{"type": "a.b", "headers": ["tiptoe"]}', "headers must be a mapping"),
        ('{"type": "a.b", "tenant": "' + "x" * 256 + '"}', "tenant has 256 bytes"),
        # Only the database finds these.
        ('{"type": "a.b", "payload": {"tiptoe": "\\u0000"}}', "the database refuses it"),
        ('{"type": "a.b", "payload": "\\u0000"}', "the database refuses it"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_broken_line_is_named_with_its_mistake(
    cli: Cli, sql: Sql, line: str, mistake: str, skip: bool
) -> None:
    text = f"{GOOD}\n\n{GOOD}\n{line}\n{GOOD}\n"
    options = ["--skip-broken"] if skip else []
    result = cli("emit", "--file", "-", "--force", *options, stdin=text)
    assert result.code == 65
    assert f"line 4: {mistake}" in result.err
    assert "tiptoe" not in result.err
    assert len(written(sql)) == (3 if skip else 2)
    if skip:
        assert result.out == "3 events written, up to line 5 (1 broken line)\n"
        return
    assert result.out == "2 events written, up to line 3 (1 broken line)\n"
    assert "add --from-line 4, or leave it out with --skip-broken" in result.err
    mended = cli(
        "emit",
        "--file",
        "-",
        "--force",
        "--from-line",
        4,
        stdin=text.replace(f"{line}\n", f"{GOOD}\n"),
    )
    assert (mended.code, len(written(sql))) == (0, 4)


def test_too_long_line_is_skipped(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    long = '{"type": "a.b", "payload": "' + "x" * (LONGEST + 10) + '"}'
    file.write_text(f"{GOOD}\n{long}\n{GOOD}")
    result = cli("emit", "--file", file, "--force", "--skip-broken", "--json")
    assert result.json["mistakes"] == [
        {"line": 2, "mistake": "it has more than 16 MiB, the limit of a line"}
    ]
    assert (result.json["written"], len(written(sql))) == (2, 2)


def test_first_broken_lines_are_listed_and_all_are_counted(cli: Cli, sql: Sql) -> None:
    text = "tiptoe\n" * 30 + GOOD
    result = cli("emit", "--file", "-", "--force", "--skip-broken", stdin=text)
    assert [line.split(":")[0] for line in result.err.splitlines()] == [
        *(f"line {n}" for n in range(1, 11)),
        "and 20 more broken lines",
    ]
    assert written(sql) == [1]


def test_undeclared_names_are_broken_lines(cli: Cli, sql: Sql) -> None:
    sql("INSERT INTO inboxd.subscriptions (topic, type) VALUES ('default', 'order.paid')")
    text = lines_of({"type": "order.paid"}, {"type": "order.payed"}, {"type": "order.paid"})
    result = cli("emit", "--file", "-", stdin=text)
    assert result.code == 65
    assert "line 2: the event type 'order.payed' is not declared; did you mean" in result.err
    assert cli("emit", "--file", "-", "--force", stdin=text).code == 0


def test_duplicates_and_dead_letters_are_counted(cli: Cli, sql: Sql) -> None:
    keyed = {"type": "a.b", "dedup_key": "k", "payload": 1}
    text = lines_of(keyed, keyed, {**keyed, "payload": 2})
    result = cli("emit", "--file", "-", "--force", "--json", stdin=text)
    assert result.code == 65
    found = [result.json[key] for key in ("written", "duplicates", "dead_letters", "broken")]
    assert found == [2, 1, 1, 0]


def test_named_import_continues_with_the_corrected_file(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(f"{GOOD}\ntiptoe\n{GOOD}\n")
    named = ("emit", "--file", file, "--force", "--name", "import 1")
    assert cli(*named).code == 65
    file.write_text(f"{GOOD}\n{GOOD}\n{GOOD}\n")
    assert cli(*named).code == 0
    assert len(written(sql)) == 3
    refused = cli(*named, "--from-line", 2)
    assert refused.code == 1
    assert "lines up to 3 are already written, line 2 among them" in refused.err
    (row,) = sql("SELECT lines, written, broken, finished_at FROM inboxd.imports")
    assert tuple(row)[:3] == (3, 3, 0)
    assert row["finished_at"] is not None


@pytest.mark.parametrize(
    "arguments",
    [
        ["--file", "/does/not/exist"],
        ["--file", "/"],
        ["a.b", "--file", "-"],
        ["--tenant", "t", "--file", "-"],
        ["a.b", "--name", "x"],
        ["--file", "-", "--page-lines", "1001"],
        [],
    ],
)
def test_contradictory_options_are_a_usage_error(cli: Cli, sql: Sql, arguments: list[str]) -> None:
    for command in ("emit", "send"):
        result = cli(command, *arguments, "--force", stdin=GOOD)
        assert result.code == 2, result
        assert "Traceback" not in result.err
    assert written(sql) == []


def test_killed_import_continues_at_its_position(
    cli: Cli, sql: Sql, database: Database, tmp_path: Path
) -> None:
    """After a SIGKILL in the middle of the file and a second run, each line is written once."""
    file = tmp_path / "events.jsonl"
    file.write_text(numbered(20_000))
    command = [sys.executable, "-m", "inboxd", "emit", "--file", str(file), "--force"]
    environment = {**os.environ, "INBOXD_DATABASE__DSN": database.dsn}
    with subprocess.Popen([*command, "--page-lines", "50"], env=environment) as process:
        while not sql("SELECT 1 FROM inboxd.imports WHERE lines > 500"):
            assert process.poll() is None, "the process ended too early"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    (row,) = sql("SELECT lines FROM inboxd.imports")
    assert len(written(sql)) == row["lines"] < 20_000
    rest = cli("emit", "--file", file, "--force", "--json").json
    assert (rest["before"], rest["lines"]) == (row["lines"], 20_000)
    assert written(sql) == list(range(1, 20_001))


@contextmanager
def piped(database: Database, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run `emit` on a pipe with one line, and one line per page; the pipe stays open."""
    command = [sys.executable, "-m", "inboxd", "emit", "--file", "-", "--force", *options]
    with subprocess.Popen(
        [*command, "--page-lines", "1"],
        env={**os.environ, "INBOXD_DATABASE__DSN": database.dsn},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(f"{GOOD}\n")
        process.stdin.flush()
        try:
            yield process
        finally:
            process.kill()


def said_at_the_end(process: subprocess.Popen[str]) -> list[str]:
    assert process.stderr is not None
    assert process.wait(patient()) == 130
    return process.stderr.read().splitlines()


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ((), "Without --name the position is not recorded: continue with --from-line 2"),
        (("--name", "mine"), "Run the same command again to continue after that line."),
    ],
)
def test_ctrl_c_ends_the_wait_for_a_pipe_and_says_how_to_continue(
    sql: Sql, database: Database, options: tuple[str, ...], how: str
) -> None:
    with piped(database, *options) as process:
        while not written(sql):
            assert process.poll() is None, "the process ended too early"
        process.send_signal(signal.SIGINT)
        assert said_at_the_end(process) == ["Interrupted: 1 event written, up to line 1", how]


WAITS = (
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def test_ctrl_c_waits_for_the_current_page(database: Database) -> None:
    """The final message agrees with the database."""
    async with database.connect() as holder:
        with piped(database) as process:
            async with holder.transaction():
                await holder.execute("LOCK TABLE inboxd.events")
                while not await database.fetch(WAITS):
                    assert process.poll() is None, "the process ended too early"
                process.send_signal(signal.SIGINT)
            said = await anyio.to_thread.run_sync(said_at_the_end, process)
        assert said[0] == "Interrupted: 1 event written, up to line 1"
        assert said[1].endswith("--from-line 2")
        assert await holder.fetchval("SELECT count(*) FROM inboxd.events") == 1


async def test_page_without_an_answer_after_ctrl_c_is_reported_as_uncertain(
    database: Database,
) -> None:
    async with database.connect() as holder, holder.transaction():
        with piped(database) as process:
            await holder.execute("LOCK TABLE inboxd.events")
            while not await database.fetch(WAITS):
                assert process.poll() is None, "the process ended too early"
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            line = await anyio.to_thread.run_sync(process.stderr.readline)
            assert "Ctrl-C again stops at once" in line
            process.send_signal(signal.SIGINT)
            said = await anyio.to_thread.run_sync(said_at_the_end, process)
    assert said[0] == "Interrupted: 0 events written, up to line 0"
    assert said[1].startswith("Lines 1 to 1 are possibly written too: the server has not answered.")
    assert said[2].endswith("--from-line 1")


def test_one_of_two_processes_on_a_file_continues(
    cli: Cli, sql: Sql, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the other process is rolled back, and its message says so."""
    found = store.so_far

    async def overtaken(session: Session, source: store.ImportedFile) -> store.ImportedSoFar:
        before = await found(session, source)
        await session.connection.execute("UPDATE inboxd.imports SET lines = 1000")
        return before

    monkeypatch.setattr(store, "so_far", overtaken)
    result = cli("emit", "--file", file, "--force")
    assert result.code == 1
    assert "another process is importing this file too, and has passed line 0" in result.err
    assert written(sql) == []


def test_abandoned_import_is_deleted(cli: Cli, sql: Sql) -> None:
    """The next import deletes it, so that the table stays small."""
    for name, days in (("old", 91), ("young", 89)):
        cli("emit", "--file", "-", "--force", "--name", name, stdin=GOOD)
        sql(
            "UPDATE inboxd.imports SET updated_at = now() - make_interval(days => $1) "
            "WHERE name = $2",
            days,
            name,
        )
    cli("emit", "--file", "-", "--force", "--name", "new", stdin=GOOD)
    assert {row[0] for row in sql("SELECT name FROM inboxd.imports")} == {"young", "new"}


def test_producer_role_may_write_a_file(
    run_cli: Cli, sql: Sql, database: Database, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer's role may insert, but not read."""
    monkeypatch.setenv(
        "INBOXD_DATABASE__DSN", f"{database.dsn}?options=-c%20role%3Dinboxd_producer"
    )
    result = run_cli("emit", "--file", file, "--json")
    assert (result.code, result.json["written"]) == (0, 2_500)
    assert run_cli("emit", "--file", file, "--json").json["written"] == 0


def test_terminal_shows_a_progress_bar(
    cli: Cli, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    shown = cli("emit", "--file", file, "--force")
    assert shown.code == 0
    assert "kB" in shown.err
    quiet = cli("emit", "--file", file, "--force", "--name", "again", "--json")
    assert (quiet.err, quiet.json["written"]) == ("", 2_500)
