"""Batches and workflows as workers run them: counted, folded, released, healed."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import anyio
import pytest

from inboxd import operations
from inboxd.daemon import maintenance
from inboxd.daemon import worker as worker_inside
from inboxd.settings import Settings
from tests.daemon.inbox import Inbox
from tests.support import Config, StartWorker, eventually
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """No polls: only folds and wake-ups make rows run."""
    return {"worker": {"poll_interval": "1h"}}


class Story:
    """The rows that one row has brought about, found by its correlation id."""

    def __init__(self, inbox: Inbox, correlation_id: str) -> None:
        self.inbox = inbox
        self.id = correlation_id

    async def batch(self, kind: str = "batch", name: str = "made") -> Any:
        rows = await self.inbox.database.fetch(
            "select * from inboxd.batches where correlation_id = $1 and kind = $2 and name = $3",
            self.id,
            kind,
            name,
        )
        return rows[0] if rows else None

    async def counts(self, kind: str = "batch", name: str = "made") -> tuple[Any, ...]:
        row = await self.batch(kind, name)
        names = ("status", "size", "succeeded", "failed", "cancelled", "skipped")
        return tuple(row[each] for each in names)

    async def comes_to(self, status: str, kind: str = "batch", name: str = "made") -> None:
        async def is_there() -> bool:
            row = await self.batch(kind, name)
            return row is not None and row["status"] == status

        await eventually(is_there)

    async def told(self) -> list[str]:
        """The notes of the continuations, one for each run."""
        rows = await self.inbox.database.fetch(
            "select l.note from ledger l join inboxd.commands_history h on h.id = l.row_id "
            "where h.correlation_id = $1 and h.type = 'batch.told' order by 1",
            self.id,
        )
        return [row[0] for row in rows]

    async def hears(self, *said: str) -> None:
        async def is_told() -> bool:
            return await self.told() == sorted(said)

        await eventually(is_told)

    async def settled(self) -> None:
        """Wait until no row of the story can run."""

        async def is_settled() -> bool:
            rows = await self.inbox.database.fetch(
                "select from inboxd.commands where correlation_id = $1 and status <> 'failed'",
                self.id,
            )
            return not rows

        await eventually(is_settled)


async def tell(inbox: Inbox, type_: str, payload: dict[str, Any], kind: str = "event") -> Story:
    """Insert a row that begins a story of its own."""
    story = Story(inbox, str(uuid4()))
    await inbox.write(kind, type_, payload, correlation_id=story.id)  # type: ignore[arg-type]
    return story


@asynccontextmanager
async def mended(inbox: Inbox) -> AsyncIterator[None]:
    """During the block, members that failed would succeed."""
    await inbox.database.execute("insert into ledger (note) values ('mended')")
    try:
        yield
    finally:
        await inbox.database.execute("delete from ledger where note = 'mended'")


async def replay(inbox: Inbox, batch: int) -> int:
    """Replay the dead letters in a batch, as an operator does; return their number."""
    async with daemon_session(inbox.database) as session:
        wanted = operations.Selection(batch=batch)
        terms = operations.Terms(actor="test")
        return await operations.act_on_all(session, "commands", "replay", wanted, terms)


@pytest.mark.parametrize(
    ("kind", "type_"),
    [("event", "batch.make"), ("event", "batch.make_sync"), ("command", "batch.make")],
)
async def test_continuations_run_when_the_last_member_has_ended(
    inbox: Inbox, kind: str, type_: str
) -> None:
    story = await tell(inbox, type_, {"members": ["ok", "sql"], "times": 3}, kind)
    await story.hears("then", "finally")
    assert await story.counts() == ("succeeded", 6, 6, 0, 0, 0)
    row = await story.batch()
    assert (row["origin_kind"], row["finished_at"] > row["created_at"]) == (kind, True)
    await story.settled()


async def test_a_continuation_has_its_batch_as_origin(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {"members": ["ok"], "times": 2})
    await story.hears("then", "finally")
    batch = await story.batch()
    rows = await inbox.database.fetch(
        "select origin_kind, origin_id, causation_id, batch_id from inboxd.commands_history "
        "where correlation_id = $1 and type = 'batch.told' and status = 'succeeded'",
        story.id,
    )
    assert {tuple(row) for row in rows} == {("batch", batch["id"], batch["batch_id"], None)}


async def test_waiting_steps_are_released_at_once(
    own: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that settles last releases them: a sweep comes after an hour. Also for a batch."""
    monkeypatch.setattr(maintenance, "_FOLD_SWEEP", 3600.0)
    settings = {"plugins": ["testplugin"], "poll_interval": "1h"}
    database = {"dsn": own.database.dsn}
    async with worker_inside(Settings.model_validate({"database": database, "worker": settings})):
        steps = [["a", "ok", []], ["mails", "batch", ["a"]], ["z", "blind", ["mails"]]]
        story = await tell(own, "flow.make", {"steps": steps})
        await story.hears("mails then", "mails finally", "then", "finally")


async def test_a_continuation_of_an_inner_batch_runs_after_it(inbox: Inbox) -> None:
    steps = [["a", "ok", []], ["b", "nested", ["a"]]]
    story = await tell(inbox, "flow.make", {"steps": steps})
    await story.hears("b inner then", "then", "finally")
    rows = await inbox.database.fetch(
        "select type, started_at, finished_at from inboxd.commands_history where "
        'correlation_id = $1 and payload in (\'{"say": "b inner then"}\', '
        '\'{"how": "slow", "name": "", "reads": []}\') order by started_at',
        story.id,
    )
    assert [row["type"] for row in rows] == ["batch.work", "batch.told"]
    assert rows[0]["finished_at"] <= rows[1]["started_at"]


async def test_a_mended_dead_letter_heals_its_batch(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {"members": ["fail", "ok"]})
    await story.hears("otherwise", "finally")
    assert await story.counts() == ("failed", 2, 1, 1, 0, 0)
    async with mended(inbox):
        assert await replay(inbox, (await story.batch())["id"]) == 1
        await story.hears("otherwise", "finally", "then")
    assert await story.counts() == ("succeeded", 2, 2, 0, 0, 0)
    assert (await story.batch())["failed_at"] is not None


async def test_an_empty_batch_succeeds_at_once(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {})
    await story.hears("then", "finally")
    assert await story.counts() == ("succeeded", 0, 0, 0, 0, 0)


async def test_batches_within_batches_end_before_them(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {"members": ["ok"], "inner": [["ok", "ok"], []]})
    await story.hears(
        *("inner 0 then", "inner 0 finally", "inner 1 then", "inner 1 finally", "then", "finally")
    )
    # Members: one command, two batches, six continuations; in each three one is skipped.
    assert await story.counts() == ("succeeded", 9, 7, 0, 0, 2)


async def test_a_failed_inner_batch_fails_the_outer_one(inbox: Inbox) -> None:
    """Its `then` waits for a repair; the outer batch has ended nevertheless."""
    story = await tell(inbox, "batch.make", {"inner": [["fail"]]})
    await story.hears("inner 0 otherwise", "inner 0 finally", "otherwise", "finally")
    assert await story.counts() == ("failed", 4, 2, 1, 0, 0)


async def test_an_open_batch_is_filled_by_others_and_ends_after_its_close(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {"open": True, "members": ["ok"]})

    async def made() -> bool:
        return await story.batch() is not None

    await eventually(made)
    batch = str((await story.batch())["batch_id"])
    for _ in range(3):
        await inbox.write("command", "batch.fill", {"batch": batch, "count": 5})

    async def filled() -> bool:
        return (await story.counts())[1:3] == (16, 16)

    await eventually(filled)
    assert (await story.counts())[0] == "running"
    assert await story.told() == []
    await inbox.write("command", "batch.fill", {"batch": batch, "count": 1, "close": True})
    await story.hears("then", "finally")
    assert await story.counts() == ("succeeded", 17, 17, 0, 0, 0)


async def test_a_closed_batch_accepts_no_members(inbox: Inbox) -> None:
    story = await tell(inbox, "batch.make", {"members": ["ok"], "times": 5})
    await story.hears("then", "finally")
    batch = str((await story.batch())["batch_id"])
    late = await inbox.write("command", "batch.fill", {"batch": batch, "count": 1}, max_attempts=1)
    dead = await inbox.dead("command", late)
    assert "is closed: nothing can be added" in dead["errors"]
    again = await inbox.write(
        "command", "batch.fill", {"batch": batch, "close": True}, max_attempts=1
    )
    assert "is closed already" in (await inbox.dead("command", again))["errors"]
    assert await story.counts() == ("succeeded", 5, 5, 0, 0, 0)


async def test_a_graph_runs_in_its_order_and_steps_read_results(inbox: Inbox) -> None:
    steps = [
        ["a", "ok", []],
        ["b", "sql", ["a"]],
        ["c", "ok", ["a"]],
        ["d", "ok", ["c", "b finished"]],
    ]
    story = await tell(inbox, "flow.make", {"steps": steps})
    await story.hears("then", "finally")
    rows = await inbox.database.fetch(
        "select s.name, h.result from inboxd.commands_history h "
        "join inboxd.steps s on s.member = h.command_id where correlation_id = $1",
        story.id,
    )
    results = {row["name"]: json.loads(row["result"])["read"] for row in rows}
    assert [each["name"] for each in results["d"]] == ["c", "b"]
    assert results["b"] == [{"name": "a", "read": []}]


async def test_a_thread_reads_results_as_well(inbox: Inbox) -> None:
    steps = [["a", "ok", []], ["b", "ok", ["a"]]]
    story = await tell(inbox, "flow.make", {"steps": steps, "sync": True})
    await story.hears("then", "finally")


async def test_a_step_may_be_a_batch_that_starts_in_its_turn(inbox: Inbox) -> None:
    steps = [["a", "ok", []], ["mails", "batch", ["a"]], ["z", "blind", ["mails"]]]
    story = await tell(inbox, "flow.make", {"steps": steps})
    await story.hears("mails then", "mails finally", "then", "finally")
    assert await story.counts("workflow") == ("succeeded", 6, 5, 0, 0, 1)
    times = await inbox.database.fetch(
        "select s.name, h.started_at, h.finished_at from inboxd.commands_history h "
        "left join inboxd.steps s on s.member = h.command_id "
        "where correlation_id = $1 and type = 'batch.work' order by started_at",
        story.id,
    )
    assert [row["name"] for row in times] == ["a", None, None, "z"]
    assert times[0]["finished_at"] <= times[1]["started_at"]
    assert max(row["finished_at"] for row in times[1:3]) <= times[3]["started_at"]


async def test_a_workflow_that_cannot_go_on_fails_and_can_be_resumed(inbox: Inbox) -> None:
    steps = [
        ["a", "ok", []],
        ["b", "fail", ["a"]],
        ["c", "ok", ["b"]],
        ["undo", "blind", ["b failed"]],
        ["d", "ok", ["c"]],
    ]
    story = await tell(inbox, "flow.make", {"steps": steps})
    await story.hears("otherwise", "finally")
    assert await story.counts("workflow") == ("failed", 5, 2, 1, 0, 0)
    async with mended(inbox):
        assert await replay(inbox, (await story.batch("workflow"))["id"]) == 1
        await story.hears("otherwise", "finally", "then")
    assert await story.counts("workflow") == ("succeeded", 5, 5, 0, 0, 0)


async def test_a_branch_that_is_not_needed_is_skipped(inbox: Inbox) -> None:
    steps = [["a", "ok", []], ["undo", "blind", ["a failed"]], ["tell", "blind", ["undo"]]]
    story = await tell(inbox, "flow.make", {"steps": steps})
    await story.hears("then", "finally")
    assert await story.counts("workflow") == ("succeeded", 3, 1, 0, 0, 2)


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([["a", "ok", ["b"]], ["b", "ok", ["a"]]], "in a circle"),
        ([["a", "ok", ["b"]]], "'a' waits for 'b', which is not a step"),
        ([["a", "ok", []], ["a", "ok", []]], "a step 'a' already"),
    ],
)
async def test_a_wrong_graph_fails_the_handler_and_writes_nothing(
    own: Inbox, start_worker: StartWorker, steps: list[Any], error: str
) -> None:
    await start_worker({"types": {"flow.make": {"retry": {"attempts": 1}}}})
    event = await own.write("event", "flow.make", {"steps": steps})
    dead = await own.dead("event", event)
    assert error in dead["errors"]
    for table in ("commands", "commands_history", "batches", "dependencies", "steps"):
        assert await own.database.fetch(f"select from inboxd.{table}") == []


async def test_a_missing_result_is_named(inbox: Inbox) -> None:
    lost = await inbox.write("command", "batch.work", {"name": "x", "reads": ["a"]}, max_attempts=1)
    dead = await inbox.dead("command", lost)
    assert "there is no result of 'a': this command is in no workflow" in dead["errors"]


async def test_an_abandoned_open_batch_expires(own: Inbox, start_worker: StartWorker) -> None:
    worker = await start_worker({"maintenance": {"interval": "1s"}})
    await own.write("event", "batch.make", {"open": True, "members": ["ok"], "expires": "100ms"})
    await worker.logged("an open batch has expired")
    assert await worker.metric("inboxd_batches_expired_total") == 1
    [row] = await own.database.fetch("select batch_id, status, expired_at from inboxd.batches")
    assert (row["status"], row["expired_at"] is not None) == ("running", True)
    late = await own.write(
        "command", "batch.fill", {"batch": str(row["batch_id"]), "count": 1}, max_attempts=1
    )
    assert "it was left open too long" in (await own.dead("command", late))["errors"]
    await own.write("command", "batch.fill", {"batch": str(row["batch_id"]), "close": True})

    async def told() -> bool:
        rows = await own.database.fetch("select note from ledger order by 1")
        return [row[0] for row in rows] == ["finally", "then"]

    await eventually(told)


async def test_a_drained_worker_folds_the_batches_that_it_settled_last(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Its fold waits for the lock of the batch's row while the worker drains."""
    member = json.dumps([{"type": "batch.work", "queue": "default"}])
    [sent] = await own.database.fetch("select id from inboxd.send_batch('b', $1)", member)
    async with daemon_session(own.database) as holder, holder.transaction():
        await holder.connection.execute(
            f"select from inboxd.batches where id = {sent['id']} for update"
        )
        worker = await start_worker()
        await lock_awaited(own.database)
        worker.process.terminate()
        await anyio.sleep(0.7)  # without the fold the worker would end within this time
    await worker.wait()
    [batch] = await own.database.fetch("select status from inboxd.batches")
    assert batch["status"] == "succeeded"
