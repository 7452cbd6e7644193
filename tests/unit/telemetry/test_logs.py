"""Logs: ids, formats, levels at run time, and values that must be hidden."""

import io
import json
import logging
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog
from pydantic import BaseModel, SecretStr

from inboxd.telemetry import logs


@pytest.fixture
def stream() -> io.StringIO:
    """Send logs as JSON to a text."""
    logging.getLogger().handlers[:] = []  # `configure` closes handlers; these belong to pytest
    text = io.StringIO()
    logs.configure("info", "json", worker="w1", stream=text)
    return text


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_ids(stream: io.StringIO) -> None:
    log = logs.get_logger("inboxd.runtime")
    with logs.bound(event_id=7, correlation_id="c"), logs.bound(command_id=UUID(int=1)):
        log.info("command %s", "done", rows=3)
    log.info("later")
    first, second = lines(stream)
    moment = datetime.fromisoformat(first.pop("timestamp"))
    assert moment.tzinfo == UTC
    assert first == {
        "message": "command done",
        "rows": 3,
        "event_id": 7,
        "correlation_id": "c",
        "command_id": "00000000-0000-0000-0000-000000000001",
        "worker": "w1",
        "logger": "inboxd.runtime",
        "level": "info",
    }
    assert "event_id" not in second


def test_standard_logging_takes_the_same_way(stream: io.StringIO) -> None:
    with logs.bound(event_id=7):
        logging.getLogger("asyncpg").warning("lost %s", "postgresql://u:hunter2@h/d")
    (line,) = lines(stream)
    assert line["message"] == "lost postgresql://u:********@h/d"
    assert (line["event_id"], line["logger"], line["level"]) == (7, "asyncpg", "warning")


def fail(message: str, payload: str = "") -> None:
    raise ValueError(message)


@pytest.mark.parametrize("standard", [True, False])
def test_exception_is_part_of_the_line(stream: io.StringIO, standard: bool) -> None:
    log: Any = logging.getLogger("x") if standard else logs.get_logger("x")
    try:
        fail("password=hunter2")
    except ValueError:
        log.exception("failed")
    (line,) = lines(stream)
    assert "ValueError: password=********" in line["exception"]
    assert "Traceback" in line["exception"]


def test_payloads_and_secrets_never_appear(stream: io.StringIO) -> None:
    class Payload(BaseModel):
        email: str = "hunter2"

    logs.get_logger("x").info(
        "seen",
        payload={"a": "hunter2"},
        Body="hunter2",
        password="hunter2",
        dsn="hunter2",
        headers={"Authorization": "hunter2", "deep": [{"token": "hunter2"}], "kept": 1},
        model=Payload(),
        secret_model=SecretStr("hunter2"),
        url="amqp://u:hunter2@h",
    )
    (line,) = lines(stream)
    assert "hunter2" not in stream.getvalue()
    assert line["payload"] == line["Body"] == logs.REMOVED
    assert line["headers"]["kept"] == 1
    assert line["model"] == "<Payload>"
    assert line["url"] == "amqp://u:********@h"


def test_odd_values_do_not_break_a_line(stream: io.StringIO) -> None:
    loop: list[object] = []
    loop.append(loop)
    logs.get_logger("x").info(
        "odd \udcff",
        huge=10**5000,
        edge=2**63,
        nan=float("nan"),
        raw=b"x",
        loop=loop,
        wait=timedelta(seconds=3),
        path=Path("/a"),
        error=OSError(5, "bad"),
        long="x" * 100_000,
        many=list(range(1000)),
        keys={1: 2, None: 3},
    )
    (line,) = lines(stream)
    assert line["message"] == "odd ?"
    assert line["huge"] == line["edge"] == "<int>"
    assert line["raw"] == "<bytes>"
    assert line["wait"] == "0:00:03"
    assert line["keys"] == {"1": 2, "None": 3}
    assert len(stream.getvalue()) < 20_000


def test_level_changes_at_once_for_existing_loggers(stream: io.StringIO) -> None:
    log = logs.get_logger("x").bind(a=1)
    log.debug("unseen")
    logs.set_level("debug")
    log.debug("seen")
    logs.set_level("error")
    log.warning("unseen")
    logging.getLogger("y").warning("unseen")
    assert [line["message"] for line in lines(stream)] == ["seen"]


def test_libraries_that_chatter_are_quiet_below_debug(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").info("unseen")
    logging.getLogger("uvicorn.error").warning("seen")
    assert [line["message"] for line in lines(stream)] == ["seen"]


def test_console_lines_are_short_with_times_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    text = io.StringIO()
    logs.configure("info", "console", stream=text, worker="vm")
    logs.get_logger("inboxd.daemon.hosted_worker").info("ready", events=1)
    logs.get_logger("shop.plugin").info("sold")
    ours, theirs = text.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \[info +\] ready events=1 worker=vm", ours
    )
    assert "[shop.plugin]" in theirs, "lines of other loggers show their logger"
    monkeypatch.undo()
    time.tzset()


def test_console_without_a_terminal_has_no_colours(stream: io.StringIO) -> None:
    text = io.StringIO()
    logs.configure("info", "console", stream=text)
    try:
        fail("short", payload="hunter" + "2")  # rich tracebacks would show this local variable
    except ValueError:
        logs.get_logger("x").exception("failed", payload="hunter2", rows=3)
    assert "\x1b" not in text.getvalue()
    assert "rows=3" in text.getvalue()
    assert "ValueError: short" in text.getvalue()
    assert "hunter2" not in text.getvalue()


def test_auto_is_json_unless_a_terminal(stream: io.StringIO) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plain, terminal = io.StringIO(), Terminal()
    for text in (plain, terminal):
        logs.configure("info", "auto", stream=text)
        logs.get_logger("x").info("hello")
    assert lines(plain)[0]["message"] == "hello"
    assert "\x1b" in terminal.getvalue()


def test_embedded_lines_go_to_the_logging_of_the_program_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    structlog.reset_defaults()
    try:
        logs.join()
        with caplog.at_level("INFO"), logs.bound(command_id=7):
            logs.get_logger("inboxd.test").info("ready", dsn="postgresql://u:secret@h/d", rows=2)
        configured = structlog.get_config()["processors"]
        logs.join()
        assert structlog.get_config()["processors"] is configured, "the second call changes nothing"
    finally:
        structlog.reset_defaults()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("inboxd.test", "INFO")
    assert record.getMessage() == "event='ready' dsn='[removed]' rows=2 command_id=7"


def test_collected_lines_leave_the_logging_unchanged() -> None:
    """Tests find log lines only as long as structlog is not configured."""
    structlog.reset_defaults()
    with logs.collected("info") as lines:
        logs.get_logger("a").info("gathered")
    assert [line["message"] for line in lines] == ["gathered"]
    assert not structlog.is_configured()


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_value_moves_the_cursor(stream: io.StringIO, style: logs.Style) -> None:
    """Terminals obey ESC and its C1 form; bidi characters turn text around."""
    text = io.StringIO()
    logs.configure("info", style, stream=text)
    wild = "a\x1b[31m\x9b31m\u202e\x7f\r\x00"
    log = logs.get_logger("x")
    log.info("got %s", wild, plain=wild, spaced=f"a {wild}", inner={wild: [wild]})
    try:
        fail(wild)
    except ValueError:
        log.exception("failed")
    written = text.getvalue()
    assert [c for c in set(written) if not c.isprintable()] == ["\n"]
    assert "\\x9b31m" in written
    assert "Traceback (most recent call last)" in written
