"""Leased commands are known to their worker, run within its limits, or are released."""

from datetime import timedelta

import pytest

from tests.daemon.inbox import Inbox, errors_of
from tests.support import Config, eventually

pytestmark = pytest.mark.anyio

LATER = "now() + interval '1 hour'"


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """A short lease, few concurrent commands, and a queue with a concurrency of 1."""
    return {
        "worker": {"lease": "2s", "heartbeat_interval": "200ms", "unhandled_grace": "1s"},
        "commands": {"concurrency": 2},
        "queues": {"one": {"concurrency": 1}},
    }


async def test_a_claim_whose_answer_is_lost_is_released(inbox: Inbox) -> None:
    """The claim committed, but its connection broke: the worker does not know of the lease."""
    [row_id] = await inbox.write_many("command", "test.ledger", [{}], run_at=await later(inbox))
    await inbox.database.execute(
        "update inboxd.commands set status = 'running', fence = fence + 1, worker_id = "
        "(select id from inboxd.workers where state = 'running') where id = $1",
        row_id,
    )

    async def given_back() -> bool:
        row = await inbox.hot("command", row_id)
        return row is not None and row["status"] == "pending"

    await eventually(given_back)
    row = await inbox.hot("command", row_id)
    assert row is not None
    assert (row["attempts"], row["crashes"], row["worker_id"]) == (0, 0, None)


async def test_a_command_that_cannot_commit_spends_its_attempts(inbox: Inbox) -> None:
    """An error that elsewhere is temporary, but here comes from the command's own transaction."""
    await inbox.database.execute(
        "create table busy (id int);"
        "create function refuse() returns trigger language plpgsql as "
        "$$ begin raise exception 'busy' using errcode = '55P03'; end $$;"
        "create constraint trigger busy after insert on busy deferrable initially deferred "
        "for each row execute function refuse()"
    )
    how = {"how": "run sql", "sql": "insert into busy values (1)"}
    row_id = await inbox.write("command", "test.misbehave", how)
    row = await inbox.dead("command", row_id)
    assert row["attempts"] == 3
    assert [entry["error"] for entry in errors_of(row)] == ["LockNotAvailableError: busy"] * 3
    assert await inbox.notes(row_id) == []


async def test_a_smaller_priority_runs_first_in_all_queues(inbox: Inbox) -> None:
    urgent = await inbox.write("command", "test.wait", queue="busy", priority=0)
    await inbox.succeeded("command", urgent)  # the lane is known now, and empty
    pace = {"wait": 0.1}
    together = await inbox.database.fetchval("select now() + interval '1 second'")
    backlog = await inbox.write_many(
        "command", "test.wait", [pace] * 30, queue="busy", priority=9, run_at=together
    )
    soon = await inbox.write_many(
        "command", "test.wait", [pace] * 5, queue="quiet", priority=1, run_at=together
    )
    await inbox.succeeded("command", *backlog, *soon)
    ahead = await inbox.database.fetchval(
        "select count(*) from inboxd.commands_history where id = any ($1) and finished_at < "
        "(select max(finished_at) from inboxd.commands_history where id = any ($2))",
        backlog,
        soon,
    )
    assert ahead < 10


async def test_a_requested_cancellation_survives_the_attempt(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "test.ledger", run_at=await later(inbox))
    await inbox.database.execute(
        "update inboxd.commands set cancel_requested = true, run_at = now() where id = $1", row_id
    )
    await inbox.database.execute("notify inboxd_commands")
    assert (await inbox.settled("command", row_id))["status"] == "cancelled"
    assert await inbox.notes(row_id) == []


async def test_a_suspect_waits_for_room_in_its_queue(inbox: Inbox) -> None:
    first = await inbox.write("command", "test.wait", {"wait": 0.5}, queue="one")
    await inbox.running(first)
    suspect = await inbox.write("command", "test.wait", queue="one", run_at=await later(inbox))
    await inbox.database.execute(
        "update inboxd.commands set crashes = 1, run_at = now() where id = $1", suspect
    )
    await inbox.database.execute("notify inboxd_commands")
    await inbox.succeeded("command", first, suspect)
    rows = await inbox.database.fetch(
        "select started_at, finished_at from inboxd.commands_history where id = any ($1) "
        "order by id",
        [first, suspect],
    )
    # The room is free when the handler has ended, which may be before the end is written.
    assert rows[1]["started_at"] >= rows[0]["started_at"] + timedelta(seconds=0.5)


async def test_an_unhandled_suspect_is_a_dead_letter(inbox: Inbox) -> None:
    row_id = await inbox.write("command", "nobody.serves", run_at=await later(inbox))
    await inbox.database.execute(
        "update inboxd.commands set crashes = 1, run_at = now() where id = $1", row_id
    )
    row = await inbox.dead("command", row_id)
    assert "NoHandler" in errors_of(row)[-1]["error"]


async def later(inbox: Inbox) -> object:
    """A time in the future, by the database's clock, before which the row is not claimed."""
    return await inbox.database.fetchval(f"select {LATER}")
