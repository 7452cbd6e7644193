"""Handlers that misbehave (promises 2 and 10): their effects are undone, other rows go on."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.daemon.inbox import KINDS, Inbox, Kind, errors_of
from tests.support import Config, StartWorker, Worker

pytestmark = pytest.mark.anyio

_MANY = 100_000


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """Two attempts, so that a dead letter comes soon."""
    twice = {"retry": {"attempts": 2}}
    return {"types": {"test.misbehave": twice, "test.hangs": twice}}


# A handler's misbehaviour, and the text of its error.
_WAYS: dict[str, str] = {
    "raise": "ValueError: as told",
    "base exception": "SystemExit: 3",
    "cancelled": "CancelledError",
    "hang": "HandlerTimeout: ran longer than its timeout of 0.5 s",
    "break transaction": "InFailedSQLTransactionError",
    "commit": "UsageError: ctx.connection is in the transaction",
    "hidden commit": "UsageError: ctx.connection is in the transaction",
    "close": "",
    "close quietly": "",
    "deferred": "ForeignKeyViolationError",
    "raise text with NUL": "ValueError: ab",
    "send to no queue": "UsageError: test.noop: queue has 300 bytes",
}


def _type(how: str) -> str:
    """The type of the handler with this misbehaviour."""
    return "test.hangs" if how == "hang" else "test.misbehave"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", _WAYS)
async def test_attempts_of_a_misbehaving_handler_fail_alone(
    inbox: Inbox, kind: Kind, how: str
) -> None:
    before = await inbox.write_many(kind, "test.ledger", [{"n": n} for n in range(3)])
    bad = await inbox.write(kind, _type(how), {"how": how})
    after = await inbox.write_many(kind, "test.ledger", [{"n": n} for n in range(3)])
    row = await inbox.dead(kind, bad)
    errors = errors_of(row)
    assert [each["attempt"] for each in errors] == [1, 2]
    assert row["attempts"] == 2
    assert all(_WAYS[how] in each["error"] for each in errors), errors
    await inbox.succeeded(kind, *before, *after)
    notes = await inbox.notes(*before, bad, *after)
    assert [row_id for _, row_id, _ in notes] == [*before, *after]


@pytest.mark.parametrize("kind", KINDS)
async def test_misbehaving_handlers_of_one_page_fail_alone(inbox: Inbox, kind: Kind) -> None:
    """All rows in one page: only the bad ones fail, and each effect occurs once."""
    hows = ["break transaction", "deferred", "hidden commit", "raise", "close"]
    ids = await inbox.write_many(
        kind,
        "test.misbehave",
        [{"how": hows[n // 10] if n % 10 == 5 else "never mind"} for n in range(10 * len(hows))],
    )
    bad = [row_id for n, row_id in enumerate(ids) if n % 10 == 5]
    good = [row_id for row_id in ids if row_id not in bad]
    await inbox.succeeded(kind, *good)
    for row_id in bad:
        await inbox.dead(kind, row_id)
    assert [row_id for _, row_id, _ in await inbox.notes(*ids)] == good


@pytest.mark.parametrize("how", ["raise", "cancelled", "base exception", "hang"])
async def test_a_misbehaving_handler_without_a_transaction_fails(inbox: Inbox, how: str) -> None:
    bad = await inbox.write("command", _type(how), {"how": how, "touch": False})
    row = await inbox.dead("command", bad)
    assert row["attempts"] == 2
    assert all(_WAYS[how] in each["error"] for each in errors_of(row))


@pytest.mark.parametrize("kind", KINDS)
async def test_an_undetectable_commit_fails_the_handler(inbox: Inbox, kind: Kind) -> None:
    """Its effects before the commit stay; but the worker notices the commit, and fails the row."""
    bad = await inbox.write(kind, "test.misbehave", {"how": "well hidden commit"})
    row = await inbox.dead(kind, bad)
    assert row["attempts"] == 2
    good = await inbox.write(kind, "test.ledger")
    await inbox.succeeded(kind, good)


@pytest.mark.parametrize("kind", KINDS)
async def test_statements_that_only_mention_a_commit_run(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "speak of commit"})
    await inbox.succeeded(kind, row_id)
    assert len(await inbox.notes(row_id)) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_time_beyond_the_columns_range_is_a_dead_letter(inbox: Inbox, kind: Kind) -> None:
    bad = await inbox.write(kind, "test.misbehave", {"how": "defer for ever"})
    good = await inbox.write(kind, "test.ledger")
    row = await inbox.dead(kind, bad)
    assert "date value out of range" in errors_of(row)[-1]["error"]
    await inbox.succeeded(kind, good)
    assert await inbox.notes(bad) == []


@pytest.mark.parametrize("touch", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_sent_payload_that_cannot_be_stored_fails_the_handler(
    inbox: Inbox, kind: Kind, touch: bool
) -> None:
    bad = await inbox.write(kind, "test.misbehave", {"how": "send text with NUL", "touch": touch})
    [error] = errors_of(await inbox.dead(kind, bad))
    assert error["error"] == "PayloadError: inner.text: text with a NUL character cannot be stored."
    assert error["path"] == "inner.text"
    assert await inbox.children(kind, bad) == []


@pytest.mark.parametrize(
    ("kind", "type_"), [("event", "test.fan"), ("command", "test.ledger"), ("command", "test.fan")]
)
async def test_a_handler_may_send_very_many_commands(inbox: Inbox, kind: Kind, type_: str) -> None:
    row_id = await inbox.write(kind, type_, {"sends": _MANY})
    await inbox.settled(kind, row_id, within=60)
    try:
        assert await _children(inbox, kind, row_id) == _MANY
    finally:
        # The next test needs an idle worker.
        await inbox.database.execute("delete from inboxd.commands where status = 'pending'")


async def _children(inbox: Inbox, kind: Kind, row_id: int) -> int:
    count: int = await inbox.database.fetchval(
        "select count(*) from (select origin_kind, origin_id from inboxd.commands union all "
        "select origin_kind, origin_id from inboxd.commands_history) as c "
        "where origin_kind = $1 and origin_id = $2",
        kind,
        row_id,
    )
    return count


@pytest.mark.parametrize("kind", KINDS)
async def test_blocking_the_loop_is_logged_by_name(
    inbox: Inbox, worker: Worker, kind: Kind
) -> None:
    row_id = await inbox.write(kind, "test.misbehave", {"how": "block", "seconds": 1.5})
    await worker.logged(f"handler of {kind} test.misbehave (id {row_id})")
    await inbox.succeeded(kind, row_id)
    [line] = [_line(line) for line in worker.output().splitlines() if f"(id {row_id})" in line]
    assert line["message"] == "event loop is blocked"
    assert "_misbehave" in line["at"]


async def test_a_thread_that_outlives_its_timeout_changes_nothing(
    inbox: Inbox, worker: Worker
) -> None:
    row_id = await inbox.write("command", "test.slow_thread", {"seconds": 0.8})
    [error] = await inbox.errors("command", row_id)
    assert "HandlerTimeout" in error["error"]
    await worker.logged(f'"row_id":{row_id},"reason":"The handler has ended')
    assert await inbox.notes(row_id) == []


async def test_every_failure_is_counted(inbox: Inbox, worker: Worker) -> None:
    row_id = await inbox.write("command", "test.misbehave", {"how": "raise"})
    await inbox.dead("command", row_id)
    name = 'inboxd_failures_total{error="ValueError",kind="command",type="test.misbehave"}'
    assert await worker.metric(name) > 0


async def test_a_stalled_worker_ends_and_another_takes_over(
    own: Inbox, start_worker: StartWorker
) -> None:
    stalling = await start_worker({"worker": {"stall_timeout": "1500ms", "lease": "4s"}})
    row_id = await own.write("command", "test.misbehave", {"how": "block", "seconds": 20})
    others = await own.write_many("command", "test.ledger", [{"n": n} for n in range(5)])
    assert await stalling.wait() == 70
    assert f"handler of command test.misbehave (id {row_id}) blocks" in stalling.output()
    await own.database.execute(
        """update inboxd.commands set payload = '{"how": "never mind"}' where id = $1""", row_id
    )
    await start_worker({"worker": {"lease": "4s"}})
    settled = await own.settled("command", row_id)
    assert (settled["attempts"], settled["crashes"]) == (1, 1)
    assert "WorkerDied" in errors_of(settled)[0]["error"]
    await own.succeeded("command", *others)
    assert [row_id for _, row_id, _ in await own.notes(row_id, *others)] == [row_id, *others]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handler_that_ignores_its_cancellation_fails(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, "test.hangs", {"how": "ignore cancellation", "seconds": 2})
    row = await inbox.dead(kind, row_id)
    assert all("HandlerTimeout" in each["error"] for each in errors_of(row))
    assert await inbox.notes(row_id) == []


def _line(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(text)
    return found
