"""Single rows in the log: none by default, each with `log.rows`."""

import inspect
import json
import signal
from typing import Any

import pytest

import inboxd_testplugin
from inboxd.settings import Settings
from tests.daemon.inbox import Inbox
from tests.support import Config, Worker

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """The settings of `inboxd dev`."""
    return {"log": {"level": "info", "rows": True}}


def _lines(worker: Worker, **wanted: object) -> list[dict[str, Any]]:
    """The lines of the log that have these fields."""
    found = [json.loads(line) for line in worker.output().splitlines()]
    return [line for line in found if wanted.items() <= line.items()]


async def test_each_settled_row_is_one_line(inbox: Inbox, worker: Worker) -> None:
    event = await inbox.write("event", "test.fan", {"sends": 2})
    await worker.logged(f'"type":"test.fan","id":{event},')
    [line] = _lines(worker, type="test.fan", id=event)
    assert (line["message"], line["level"], line["topic"]) == ("event succeeded", "info", "default")
    assert line["sent"] == 2
    assert 0 <= line["ms"] < 10_000
    assert line["event_id"] == line["correlation_id"]

    for child in await inbox.children("event", event):
        await inbox.succeeded("command", child["id"])
        await worker.logged(f'"type":"test.noop","id":{child["id"]},')
        [line] = _lines(worker, type="test.noop", id=child["id"])
        assert (line["message"], line["queue"]) == ("command succeeded", "default")
        assert line["correlation_id"] != line["command_id"], (
            "the command belongs to the event's story"
        )

    own_transaction = await inbox.write("command", "test.ledger", {"sends": 1})
    await worker.logged(f'"type":"test.ledger","id":{own_transaction},')
    [line] = _lines(worker, type="test.ledger", id=own_transaction)
    assert (line["message"], line["sent"]) == ("command succeeded", 1)


@pytest.mark.parametrize("kind", ["event", "command"])
async def test_a_failure_is_a_warning_with_its_place_and_frames_of_the_plugin(
    inbox: Inbox, worker: Worker, kind: Any
) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "raise"})
    await inbox.dead(kind, row_id)
    await worker.logged(f"{kind} is a dead letter")
    first, second, dead = _lines(worker, type="test.misbehave", id=row_id)
    for line in (first, second):
        assert (line["message"], line["level"]) == (f"{kind} did not succeed", "warning")
    assert (dead["message"], dead["level"]) == (f"{kind} is a dead letter", "error")
    source = inspect.getsource(inboxd_testplugin).splitlines()
    number = source.index('            raise ValueError(how.get("text", "as told"))') + 1
    place = f"{inboxd_testplugin.__file__}:{number} in _misbehave"
    for line in (first, second, dead):
        assert line["at"] == place
        assert 'raise ValueError(how.get("text", "as told"))' in line["exception"]
        assert "execution.py" not in line["exception"], "frames of inboxd itself are left out"
        assert line[f"{kind}_id"]


async def test_a_deferral_is_not_a_warning(inbox: Inbox, worker: Worker) -> None:
    row_id = await inbox.write("command", "test.misbehave", {"how": "defer", "seconds": 3600})
    await worker.logged('"outcome":"deferred"')
    line, *_ = _lines(worker, type="test.misbehave", id=row_id)
    assert (line["level"], line["outcome"]) == ("info", "deferred")
    assert not line.keys() & {"at", "exception"}


async def test_the_level_decides_which_rows_are_logged(inbox: Inbox, worker: Worker) -> None:
    """Starts are logged at debug; without `log.rows` neither rows nor frames are logged."""
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text()
    try:
        await _reload(worker, text.replace('"level" = "info"', '"level" = "debug"'))
        event = await inbox.write("event", "test.noop", topic="default")
        command = await inbox.write("command", "test.noop")
        await worker.logged(f'"type":"test.noop","id":{command},"queue":"default","ms"')
        await worker.logged(f'"type":"test.noop","id":{event},"topic":"default","ms"')
        for row_id, start in ((event, "event starts"), (command, "command starts")):
            begun, ended = _lines(worker, type="test.noop", id=row_id)
            assert (begun["message"], begun["level"], begun["attempt"]) == (start, "debug", 1)
            assert begun["correlation_id"] == ended["correlation_id"]
            where = "topic" if start == "event starts" else "queue"
            assert begun[where] == ended[where] == "default"

        await _reload(worker, text.replace('"rows" = true', '"rows" = false'))
        silent = await inbox.write_many("command", "test.noop", [{}, {}])
        failing = await inbox.write("command", "test.misbehave", {"how": "raise"})
        await inbox.dead("command", failing)
        await inbox.succeeded("command", *silent)
        assert not [line for row_id in silent for line in _lines(worker, id=row_id)]
        told = _lines(worker, id=failing)
        assert [line["level"] for line in told] == ["warning", "warning", "error"]
        assert not any("exception" in line for line in told)
        assert all(line["at"].endswith("in _misbehave") for line in told)
    finally:
        await _reload(worker, text)


async def _reload(worker: Worker, text: str) -> None:
    before = worker.output().count("settings are reloaded")
    worker.log.with_suffix(".toml").write_text(text)
    worker.process.send_signal(signal.SIGHUP)
    while worker.output().count("settings are reloaded") == before:
        await worker.logged("settings are reloaded")


def test_rows_are_not_logged_by_default() -> None:
    assert not Settings().log.rows
