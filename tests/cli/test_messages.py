"""`inboxd messages`, and sources of messages in status, doctor and check."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest

from inboxd.operations import messages
from tests.cli.conftest import Cli
from tests.support import Database
from tests.support.rows import daemon_session, join

Sql = Callable[..., list[Any]]

SETTINGS = """
[brokers.main]
kind = "nats"
servers = ["127.0.0.1:1"]
[inbound.messages.bets]
broker = "main"
nats_stream = "BETS"
[brokers.rabbit]
kind = "rabbitmq"
servers = ["127.0.0.1:1"]
[inbound.messages.queue]
broker = "rabbit"
rabbitmq_queue = "q"
"""


@pytest.fixture
def worker(database: Database) -> str:
    """Insert the row of a living worker; returns its id."""

    async def joined() -> UUID:
        async with daemon_session(database) as session:
            return await join(session, "w-1")

    return str(anyio.run(joined))


def _stream(sql: Sql, worker: str | None, stream: str = "BETS", position: int | None = 7) -> None:
    sql(
        "insert into inboxd.stream_positions (source, stream, position, identity, reader,"
        " opened_at, stored_at) values ('bets', $1, $2, 'i', $3, now() - interval '3 hours',"
        " now() - interval '2 hours')",
        stream,
        position,
        worker,
    )


def _reader(sql: Sql, worker: str, state: str = "reading", lag: int | None = None) -> None:
    sql(
        "insert into inboxd.message_readers (source, worker_id, broker, state, trouble, lag, since)"
        " values ('bets', $1, 'main', $2, $3, $4, now() - interval '10 minutes')",
        worker,
        state,
        None if state in ("reading", "standby") else "why not",
        lag,
    )


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write settings with a source of NATS, and one of RabbitMQ."""
    file = tmp_path / "inboxd.toml"
    file.write_text(SETTINGS)
    monkeypatch.setenv("INBOXD_CONFIG", str(file))


# ------------------------------------------------------------------------------------------- list


def test_streams_are_listed_with_their_readers(cli: Cli, sql: Sql, worker: str) -> None:
    _stream(sql, worker)
    _stream(sql, None, "OTHER", None)
    _reader(sql, worker, lag=3)
    lines = [line.split("\t") for line in cli("messages", "list").out.splitlines()]
    assert lines[0][:4] == ["source", "broker", "stream", "position"]
    assert [line[3] for line in lines[1:]] == ["7", "-"]
    assert _read_by(cli) == [("BETS", "w-1", "3"), ("OTHER", "-", "-")]
    found = cli("messages", "list", "--json").json
    assert [row["reader"] for row in found["streams"]] == [worker, None]
    assert [(row["worker"], row["state"]) for row in found["readers"]] == [("w-1", "reading")]


def test_lists_say_how_many_streams_are_not_shown(
    cli: Cli, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_SHOWN", 2)
    for stream in "ab":
        _stream(sql, None, stream)
    assert cli("messages", "list").err == ""
    assert "not shown" not in cli("status").out
    for stream in "cde":
        _stream(sql, None, stream)
    listed = cli("messages", "list")
    assert len(listed.out.splitlines()) == 3
    assert listed.err == "3 more streams not shown\n"
    assert "Sources of messages; 3 more streams not shown\n" in cli("status").out
    for command in (("messages", "list"), ("status",)):
        assert cli(*command, "--json").json["streams_left_out"] == 3


def test_readers_of_many_sources_are_all_listed(cli: Cli, sql: Sql, worker: str) -> None:
    """A stream whose reader was left out would be shown as not read."""
    sql(
        "insert into inboxd.message_readers (source, worker_id, broker, state, lag, since)"
        " select 'a-' || n, $1, 'main', 'standby', null, now() from generate_series(1, 1000) n",
        worker,
    )
    _stream(sql, worker)
    _reader(sql, worker, lag=0)
    assert ("BETS", "w-1", "0") in _read_by(cli)


def test_source_without_a_stream_is_listed(cli: Cli, sql: Sql, worker: str) -> None:
    _reader(sql, worker, "away")
    status = cli("status").out
    for told in (cli("messages", "list").out, status):
        assert "away" in told
        assert "why not" in told
    assert [row["source"] for row in cli("status", "--json").json["messages"]] == ["bets"]


def test_queue_has_a_reader_before_its_first_message(cli: Cli, sql: Sql, worker: str) -> None:
    """The reader of the source counts, not the earlier worker that opened the queue."""
    _reader(sql, worker, lag=0)
    assert _read_by(cli) == [("-", "w-1", "0")]
    _stream(sql, str(UUID(int=7)), "q", None)
    assert _read_by(cli) == [("q", "w-1", "0")]


def _read_by(cli: Cli) -> list[tuple[str, str, str]]:
    head, *lines = (line.split("\t") for line in cli("messages", "list").out.splitlines())
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    return [(row["stream"], row["read by"], row["lag"]) for row in rows]


def test_reports_of_dead_workers_are_not_listed(cli: Cli, sql: Sql, worker: str) -> None:
    _stream(sql, worker)
    _reader(sql, worker)
    sql("update inboxd.workers set state = 'dead', ended_at = now()")
    assert "not read" in cli("messages", "list").out


# ------------------------------------------------------------------------------------------ reset


@pytest.mark.parametrize(
    ("to", "position", "begins"),
    [("oldest", None, "oldest"), ("newest", None, "newest"), ("41", 41, None), ("0", 0, None)],
)
def test_stream_is_reset(
    cli: Cli, sql: Sql, worker: str, to: str, position: int | None, begins: str | None
) -> None:
    _stream(sql, worker)
    result = cli("messages", "reset", "bets", "BETS", "--to", to, "--reason", "made anew")
    assert result.code == 0, result.err
    assert "within seconds" in result.out
    (row,) = sql("select * from inboxd.stream_positions")
    assert (row["position"], row["begins"], row["identity"]) == (position, begins, "")
    assert (row["fence"], row["reader"]) == (2, None), "its reader has lost it"
    (entry,) = cli("audit", "--json").json["audit"]
    assert (entry["action"], entry["target"]) == (f"reset to {to}", "stream bets BETS")
    assert entry["reason"] == "made anew"


@pytest.mark.parametrize("to", ["-1", "latest", "1.5", "9" * 30, ""])
def test_invalid_place_is_refused(cli: Cli, sql: Sql, worker: str, to: str) -> None:
    _stream(sql, worker)
    result = cli("messages", "reset", "bets", "BETS", f"--to={to}")
    assert result.code == 2
    assert "oldest, newest" in result.err
    assert sql("select fence from inboxd.stream_positions")[0][0] == 1


def test_reset_of_an_unknown_stream_is_refused(cli: Cli, sql: Sql, worker: str) -> None:
    result = cli("messages", "reset", "bets", "BETS", "--to", "oldest")
    assert (result.code, "no worker has read the source" in result.err) == (1, True)
    _stream(sql, worker)
    result = cli("messages", "reset", "bets", "BET", "--to", "oldest")
    assert (result.code, "'BETS'" in result.err) == (1, True)


@pytest.mark.usefixtures("settings")
def test_reset_of_a_rabbitmq_queue_is_refused(cli: Cli) -> None:
    result = cli("messages", "reset", "queue", "q", "--to", "oldest")
    assert (result.code, "RabbitMQ queue" in result.err) == (2, True)


# ----------------------------------------------------------------------------------------- verify


def test_verify_without_sources(cli: Cli, sql: Sql, worker: str) -> None:
    assert "no sources of messages" in cli("messages", "verify").out
    _stream(sql, worker)
    result = cli("sources", "verify", "--json")
    (found,) = result.json["streams"]
    assert (result.code, found["verdict"], found["position"]) == (0, "notice", 7)


@pytest.mark.usefixtures("settings")
def test_verify_reports_an_unreachable_broker(cli: Cli, sql: Sql, worker: str) -> None:
    _stream(sql, worker)
    result = cli("messages", "verify")
    assert result.code == 69
    assert result.out.count("cannot be reached") == 2
    found = cli("messages", "verify", "--json").json["streams"]
    assert [(each["source"], each["seen"]) for each in found] == [("bets", False), ("queue", False)]


# ----------------------------------------------------------------------------------------- doctor


def _findings(cli: Cli) -> list[tuple[str, str]]:
    found = cli("doctor", "--json").json["findings"]
    return [(f["verdict"], f["found"]) for f in found if f["subject"].startswith("messages")]


def test_doctor_without_sources_is_ok(cli: Cli) -> None:
    assert _findings(cli) == [("ok", "there are no sources")]


@pytest.mark.usefixtures("settings")
def test_doctor_finds_unread_sources(cli: Cli) -> None:
    assert _findings(cli) == [("warning", "no worker reads it")] * 2


@pytest.mark.parametrize(
    ("state", "lag", "verdict", "told"),
    [
        ("reading", 0, "ok", "read by 1 worker"),
        ("reading", None, "notice", "read by 1 worker; how many messages it is behind is unknown"),
        ("reading", 5, "critical", "5 messages behind, nothing stored for 2h"),
        ("lost", None, "critical", "it is stopped: why not"),
        ("away", None, "warning", "no worker has read it for 10m"),
        ("failing", None, "warning", "no worker has read it for 10m"),
        ("paused", None, "notice", "no worker has read it for 10m"),
    ],
)
def test_doctor_judges_a_source(
    cli: Cli, sql: Sql, worker: str, state: str, lag: int | None, verdict: str, told: str
) -> None:
    _stream(sql, worker)
    _reader(sql, worker, state, lag)
    ((found, text),) = _findings(cli)
    assert found == verdict
    assert told in text


# ------------------------------------------------------------------------------------------ check


@pytest.mark.usefixtures("settings")
def test_check_names_each_source(cli: Cli) -> None:
    checks = cli("check", "--json").json["checks"]
    found = {c["subject"]: (c["verdict"], c["found"]) for c in checks}
    assert found["messages: bets"] == ("ok", "nats BETS; type: the CloudEvents'")
    assert found["messages: queue"] == ("ok", "rabbitmq q; type: the CloudEvents'")


@pytest.mark.usefixtures("settings")
def test_check_fails_for_an_invalid_source(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INBOXD_INBOUND__MESSAGES__BETS__TENANT", f"text:{'x' * 300}")
    checks = cli("check", "--json").json["checks"]
    (line,) = [each for each in checks if each["subject"] == "messages: bets"]
    assert line["verdict"] == "fail"
    assert "tenant has 300 bytes" in line["found"]
    assert "[inbound.messages.bets]" in line["remedy"]


# ------------------------------------------------------------------------------------------ pause


@pytest.mark.usefixtures("settings")
def test_source_of_messages_is_paused_by_its_name(cli: Cli) -> None:
    result = cli("pause", "source", "bets")
    assert (result.code, result.out) == (0, "Paused: source bets\n")
    assert cli("resume", "source", "bets").out == "Resumed: source bets\n"
    assert cli("pause", "source", "unknown").code == 66
