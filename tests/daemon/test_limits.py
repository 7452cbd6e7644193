"""Limits of queues, cancellation, and the process's HTTP pages."""

import itertools
import json

import pytest

from tests.daemon.inbox import Inbox
from tests.support import Config, StartWorker, Worker, eventually
from tests.support.counted import counted
from tests.support.locks import lock_awaited

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """A narrow queue, heartbeats that soon bring a cancellation, and long waits for locks."""
    return {
        "worker": {"heartbeat_interval": "200ms"},
        "database": {"lock_timeout": "10m", "statement_timeout": "10m"},
        "queues": {"narrow": {"concurrency": 2}, "slow": {"concurrency": 1}},
    }


async def test_running_commands_of_a_queue_stay_within_its_concurrency(inbox: Inbox) -> None:
    """While two of the narrow queue wait for a lock, four of the wide queue get as far."""
    writing, database = "insert into ledger%", inbox.database
    async with database.connect() as other, other.transaction():
        await other.execute("lock table ledger in share mode")
        narrow = await inbox.write_many("command", "test.ledger", [{}] * 12, queue="narrow")
        await lock_awaited(database, 2, query=writing)
        wide = await inbox.write_many("command", "test.ledger", [{}] * 4, queue="wide")
        await lock_awaited(database, 2 + 4, query=writing)
        running = "select count(*) from inboxd.commands where status = 'running' and id = any ($1)"
        assert await database.fetchval(running, narrow) == 2
    await inbox.succeeded("command", *narrow, *wide)
    spans = await inbox.write_many("command", "test.span", [{"wait": 0.1}] * 12, queue="narrow")
    await inbox.succeeded("command", *spans)
    assert await _most_at_once(inbox, spans) <= 2


async def _most_at_once(inbox: Inbox, ids: list[int]) -> int:
    rows = await inbox.database.fetch(
        "select result from inboxd.commands_history where id = any ($1)", ids
    )
    spans = [json.loads(row["result"]) for row in rows]
    steps = sorted([(span["began"], 1) for span in spans] + [(span["ended"], -1) for span in spans])
    return max(itertools.accumulate(step for _, step in steps))


async def test_a_running_command_is_cancelled_on_request(inbox: Inbox) -> None:
    running, waiting = await inbox.write_many(
        "command", "test.wait", [{"wait": 3600}, {"wait": 0}], queue="slow"
    )
    await inbox.running(running)
    await inbox.database.execute(
        "update inboxd.commands set cancel_requested = true where id = $1", running
    )
    settled = await inbox.settled("command", running)
    assert settled["status"] == "cancelled"
    assert settled["errors"] is None
    await inbox.succeeded("command", waiting)


async def test_a_cancelled_command_leaves_no_effect(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.ledger", {"wait": 3600})
    await inbox.running(row_id)
    await inbox.database.execute(
        "update inboxd.commands set cancel_requested = true where id = $1", row_id
    )
    assert (await inbox.settled("command", row_id))["status"] == "cancelled"
    assert await inbox.notes(row_id) == []


@pytest.mark.direct("nobody listens behind one, and a metric says so")
async def test_metrics_agree_with_history(own: Inbox, start_worker: StartWorker) -> None:
    worker = await start_worker({"maintenance": {"interval": "1s"}, "retry": {"attempts": 1}})
    good = await own.write_many("event", "test.ledger", [{"sends": 2}] * 5)
    bad = await own.write("command", "test.misbehave", {"how": "raise"})
    await own.succeeded("event", *good)
    await own.dead("command", bad)

    async def is_written() -> bool:
        return await counted(own.database, "kind, lane, outcome, after") == {
            ("event", "default", "succeeded", ""): 5,
            ("command", "default", "succeeded", ""): 10,
            ("command", "default", "retried", ""): 1,
            ("command", "default", "retried", "retry"): 1,
            ("command", "default", "failed", "retry"): 1,
        }

    await eventually(is_written)
    found = await _metrics(worker)
    assert found['inboxd_events_total{outcome="succeeded",type="test.ledger"}'] == 5
    ran = 'inboxd_commands_total{outcome="succeeded",queue="default",type="test.ledger"}'
    assert found[ran] == 10
    assert found['inboxd_attempts_total{kind="command",type="test.misbehave"}'] == 3
    assert found['inboxd_handler_duration_seconds_count{kind="event",type="test.ledger"}'] == 5
    assert found["inboxd_event_wait_duration_seconds_count"] == 5
    assert found['inboxd_command_wait_duration_seconds_count{queue="default"}'] == 13
    assert found['inboxd_in_flight{kind="command"}'] == 0
    assert found["inboxd_listener_connected"] == 1
    assert found["inboxd_lease_age_seconds"] < 6
    assert found['inboxd_claim_duration_seconds_count{kind="event"}'] > 0
    assert found['inboxd_settle_duration_seconds_count{kind="command"}'] > 0
    labels = 'priority="",queue="",state="failed",type="test.misbehave"'
    backlog = f"inboxd_command_backlog_rows{{{labels}}}"

    async def shows_the_dead_letter() -> bool:
        return (await _metrics(worker)).get(backlog) == 1

    await eventually(shows_the_dead_letter)


async def _metrics(worker: Worker) -> dict[str, float]:
    status, text = await worker.get("/metrics")
    assert status == 200
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def test_health_and_readiness(inbox: Inbox, worker: Worker) -> None:
    for path in ("/healthz", "/readyz"):
        status, body = await worker.get(path)
        assert (status, json.loads(body)["ok"]) == (200, True)
        assert inbox.database.name not in body
    assert (await worker.get("/elsewhere"))[0] == 404
