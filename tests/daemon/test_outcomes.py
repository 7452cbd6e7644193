"""Outcomes of a row: retry, deferral, rejection, result, lineage; by its policy."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from inboxd.daemon.garbage import OF_HANDLERS
from tests.daemon.inbox import KINDS, Inbox, Kind, errors_of
from tests.support import Config, StartWorker, Worker

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """An operator's overrides; polls are so rare that only timers can be on time."""
    return {
        "worker": {"poll_interval": "30s"},
        "types": {
            "test.identity": {"retry": {"attempts": 4}},
            "test.wait": {"timeout": "200ms"},
            "test.thread": {"queue": "threads"},
        },
    }


@pytest.mark.parametrize("kind", KINDS)
async def test_each_attempt_is_an_execution_and_leaves_an_entry(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "raise"})
    row = await inbox.dead(kind, row_id)
    errors = errors_of(row)
    [worker_id] = await inbox.database.fetch("select id::text from inboxd.workers")
    assert row["attempts"] == 3
    assert [each["attempt"] for each in errors] == [1, 2, 3]
    assert {each["worker"] for each in errors} == {worker_id["id"]}
    assert {each["error"] for each in errors} == {"ValueError: as told"}
    assert all("_misbehave" in each["traceback"] for each in errors)
    times = [datetime.fromisoformat(each["at"]) for each in errors]
    waits = [after - before for before, after in pairwise(times)]
    assert all(wait >= timedelta(milliseconds=100) for wait in waits)
    assert all(wait < timedelta(seconds=10) for wait in waits)
    assert row["fingerprint"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_password_in_an_error_is_masked_when_it_is_stored(inbox: Inbox, kind: Kind) -> None:
    told = {"how": "raise", "text": "no answer of postgres://u:hunter2@h/db"}
    row = await inbox.dead(kind, await inbox.write(kind, "test.misbehave", told))
    masked = "ValueError: no answer of postgres://u:********@h/db"
    for entry in errors_of(row):
        assert entry["error"] == masked
        assert entry["traceback"].endswith(masked)
    if kind == "command":
        ask = "select inboxd.command_result($1)::text"
        answer = await inbox.database.fetchval(ask, row["command_id"])
        assert masked in answer
        assert "hunter2" not in answer


@pytest.mark.parametrize("kind", KINDS)
async def test_the_next_attempt_counts_from_now(inbox: Inbox, kind: Kind) -> None:
    """A row that was due an hour ago is not retried in the past."""
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    row_id = await inbox.write(
        kind, "test.misbehave", {"how": "retry later", "seconds": 3600}, run_at=long_ago
    )
    [error] = await inbox.errors(kind, row_id)
    row = await inbox.hot(kind, row_id)
    assert row is not None
    waits = row["run_at"] - datetime.fromisoformat(error["at"])
    assert abs(waits - timedelta(hours=1)) < timedelta(seconds=30)
    assert (row["status"], row["attempts"]) == ("pending", 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_requested_retry_spends_attempts(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "retry"})
    row = await inbox.dead(kind, row_id)
    assert [each["error"] for each in errors_of(row)] == ["Retry: as told"] * 3


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rejection_is_a_dead_letter_at_once(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "reject"})
    row = await inbox.dead(kind, row_id)
    assert row["attempts"] == 1
    assert [each["error"] for each in errors_of(row)] == ["Reject: as told"]
    assert await inbox.notes(row_id) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_deferral_spends_no_attempt(inbox: Inbox, kind: Kind) -> None:
    until = datetime.now(UTC) + timedelta(seconds=1)
    row_id = await inbox.write(
        kind, "test.misbehave", {"how": "defer until", "until": until.isoformat()}
    )
    settled = await inbox.settled(kind, row_id)
    assert settled["run_at"] == until
    assert settled["finished_at"] >= until
    assert settled["attempts"] == 1
    assert settled["errors"] is None
    assert len(await inbox.notes(row_id)) == 1


async def test_a_permanent_error_is_not_retried(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.permanent")
    row = await inbox.dead("command", row_id)
    assert row["attempts"] == 1
    assert errors_of(row)[0]["error"] == "KeyError: 'gone for good'"


async def test_a_row_may_limit_its_attempts(inbox: Inbox) -> None:
    once = await inbox.write("command", "test.misbehave", {"how": "raise"}, max_attempts=1)
    often = await inbox.write("command", "test.misbehave", {"how": "raise"}, max_attempts=4)
    assert (await inbox.dead("command", once))["attempts"] == 1
    assert (await inbox.dead("command", often))["attempts"] == 4


async def test_settings_override_policy_and_timeout(inbox: Inbox) -> None:
    failing = await inbox.write("command", "test.identity", {"at": 99})
    slow = await inbox.write("command", "test.wait", {"wait": 60})
    assert (await inbox.dead("command", failing))["attempts"] == 4
    errors = errors_of(await inbox.dead("command", slow))
    assert "HandlerTimeout: ran longer than its timeout of 0.2 s" in errors[0]["error"]


async def test_settings_override_a_queue(inbox: Inbox) -> None:
    """A command without a queue, from plain SQL or a handler, goes to the queue of the settings."""
    row_id = await inbox.write("command", "test.thread", {"n": 5}, queue=None)
    settled = await inbox.settled("command", row_id)
    assert settled["queue"] == "threads"
    assert await inbox.notes(row_id) == [("thread", row_id, "5")]


async def test_a_command_after_its_deadline_is_a_dead_letter(inbox: Inbox) -> None:
    now = datetime.now(UTC)
    late = await inbox.write("command", "test.ledger", deadline=now - timedelta(seconds=1))
    early = await inbox.write("command", "test.ledger", deadline=now + timedelta(hours=1))
    [error] = errors_of(await inbox.dead("command", late))
    assert "its deadline passed before it could start" in error["error"]
    await inbox.succeeded("command", early)
    assert await inbox.notes(late) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_later_start_is_on_time_without_a_wakeup(inbox: Inbox, kind: Kind) -> None:
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    row_id = await inbox.write(kind, "test.ledger", run_at=due)
    settled = await inbox.settled(kind, row_id)
    assert timedelta() <= settled["finished_at"] - due < timedelta(seconds=10), (
        "a timer, not a poll, starts it"
    )


@pytest.mark.parametrize("type_", ["test.ledger", "test.noop"])
async def test_the_smaller_priority_runs_first(
    own: Inbox, start_worker: StartWorker, type_: str
) -> None:
    """One command at a time, so that the order shows; all are inserted before the worker starts."""
    ids = []
    for priority in (5, 0, -5, 9):
        ids += await own.write_many("command", type_, [{}] * 2, priority=priority, queue="one")
    await start_worker({"queues": {"one": {"concurrency": 1}}})
    await own.succeeded("command", *ids)
    rows = await own.database.fetch(
        "select priority from inboxd.commands_history order by started_at"
    )
    assert [row["priority"] for row in rows] == [-5, -5, 0, 0, 5, 5, 9, 9]


async def test_a_result_is_stored(inbox: Inbox) -> None:
    own_transaction = await inbox.write("command", "test.ledger", {"n": 3})
    gathered = await inbox.write("command", "test.any", {"a": [1, None, "ü"]})
    none = await inbox.write("command", "test.noop")
    assert json.loads((await inbox.settled("command", own_transaction))["result"]) == {"n": 3}
    settled = await inbox.settled("command", gathered)
    assert json.loads(settled["result"]) == {"a": [1, None, "ü"]}
    assert (await inbox.settled("command", none))["result"] is None


async def test_garbage_collections_are_rare_and_skip_modules(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.garbage")
    found = json.loads((await inbox.settled("command", row_id))["result"])
    assert found["objects"] == OF_HANDLERS
    assert found["frozen"] > 50_000


async def test_the_idempotency_key_stays_the_same(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.identity", {"at": 3}, tenant="north")
    settled = await inbox.settled("command", row_id)
    key = str(settled["command_id"])
    assert [each["error"] for each in errors_of(settled)] == [f"ValueError: {key}"] * 2
    assert json.loads(settled["result"]) == {
        "idempotency_key": key,
        "attempt": 3,
        "origin": ["api", None],
        "tenant": "north",
    }


async def test_children_have_the_lineage_of_their_parent(inbox: Inbox) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    event = await inbox.write(
        "event",
        "test.ledger",
        {"sends": 2},
        tenant="north",
        traceparent=trace,
        correlation_id="the story",
    )
    event_id = (await inbox.settled("event", event))["event_id"]
    children = await inbox.children("event", event)
    assert len(children) == 2
    for child in children:
        assert child["causation_id"] == event_id
        assert (child["correlation_id"], child["traceparent"]) == ("the story", trace)
        assert (child["tenant"], child["queue"]) == ("north", "default")


async def test_a_story_begins_with_the_first_row(inbox: Inbox) -> None:
    parent = await inbox.write("command", "test.ledger", {"sends": 1})
    parent_id = (await inbox.settled("command", parent))["command_id"]
    [child] = await inbox.children("command", parent)
    assert (child["correlation_id"], child["causation_id"]) == (str(parent_id), parent_id)


async def test_several_handlers_succeed_or_fail_together(inbox: Inbox) -> None:
    row_id = await inbox.write("event", "test.pair", {"failures": 2})
    failing = await inbox.write("event", "test.pair", {"failures": 9})
    settled = await inbox.settled("event", row_id)
    assert settled["attempts"] == 3
    assert await inbox.notes(row_id) == [("first", row_id, "3"), ("second", row_id, "3")]
    assert len(await inbox.children("event", row_id)) == 1
    await inbox.dead("event", failing)
    assert await inbox.notes(failing) == []
    assert await inbox.children("event", failing) == []


async def test_an_event_may_run_as_a_command(inbox: Inbox) -> None:
    row_id = await inbox.write("event", "test.later", {"n": 4}, tenant="north")
    await inbox.settled("event", row_id)
    [child] = await inbox.children("event", row_id)
    assert (child["type"], child["queue"]) == ("testplugin.later_event", "later")
    assert child["tenant"] == "north"
    await inbox.succeeded("command", child["id"])
    assert await inbox.notes(row_id) == [("later", row_id, "4")]


async def test_middleware_wraps_handlers(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.translated")
    refused = await inbox.write("command", "test.translated", {"fail": True})
    settled = await inbox.settled("command", row_id)
    assert json.loads(settled["result"]) == "told by translated_command"
    [error] = errors_of(await inbox.dead("command", refused))
    assert error["error"] == "Reject: translated"


async def test_logs_carry_ids_and_no_payloads(inbox: Inbox, worker: Worker) -> None:
    row_id = await inbox.write(
        "command",
        "test.misbehave",
        {"how": "reject", "private": "0b5e55ed"},
        correlation_id="story",
    )
    row = await inbox.dead("command", row_id)
    [line] = [line for line in worker.output().splitlines() if str(row["command_id"]) in line]
    assert '"correlation_id":"story"' in line
    assert "0b5e55ed" not in worker.output()
    (told,) = errors_of(row)
    assert told["traceback"].startswith('  File "')
    assert "/inboxd/engine/" not in told["traceback"], (
        "the traceback begins with the plugin's frames"
    )
