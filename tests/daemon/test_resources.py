"""Resources and hooks in a whole worker: opened once per process, passed to all functions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.inbox import Inbox
from tests.support import StartWorker, Worker, eventually
from tests.support.plugins import found, install

pytestmark = pytest.mark.anyio

SHOP = """
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
from inboxd import (
    BlockingCommandContext, Call, CommandContext, Event, EventChunk, EventContext, FailedAttempt,
    Fixed, Handlers, Proceed, WorkerInfo,
)

handlers = Handlers("shop")
TWICE = Fixed(base="10ms", attempts=2, jitter="none")


def say(what: str, **more: Any) -> None:
    sys.stderr.write(json.dumps({"said": what, **more}) + "\\n")  # at once: the log is a thread's


class Till:
    taken = 0

    def take(self, what: str) -> int:
        self.taken += 1
        say(f"took {what}")
        return self.taken


@handlers.lifespan
async def till() -> AsyncIterator[Till]:
    say("till opened")
    yield Till()
    say("till closed")


@handlers.lifespan
def drawer(till: Till) -> Iterator[bytes]:
    till.take("drawer")
    yield b"coins"
    say("drawer closed")


@handlers.lifespan
async def ledger() -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(os.environ["SHOP_DSN"])
    yield connection
    await connection.close()


@handlers.middleware
async def around(call: Call, proceed: Proceed, drawer: bytes) -> object:
    assert drawer == b"coins"
    return await proceed()


@handlers.event("shop.event")
async def event(event: Event[dict], ctx: EventContext, till: Till) -> None:
    till.take("event")


@handlers.event("shop.later", as_command=True)
async def later(event: Event[dict], ctx: CommandContext, till: Till) -> None:
    till.take("later")


handlers.topic("boxes", mode="batch", count=2)


@handlers.chunk("shop.boxed", topic="boxes")
async def boxed(events: EventChunk[dict], ctx: EventContext, till: Till) -> None:
    till.take("chunk")


@handlers.command("shop.thread")
def thread(command: dict, ctx: BlockingCommandContext, till: Till) -> int:
    return till.take("thread")


@handlers.command("shop.loop")
async def loop(command: dict, ctx: CommandContext, *, till: Till) -> int:
    return till.take("loop")


@handlers.command("shop.fails", retry=TWICE)
async def fails(command: dict, ctx: CommandContext) -> None:
    raise ValueError("no coins")


@handlers.event("shop.misfit")
async def misfit(event: Event[int], ctx: EventContext) -> None: ...


handlers.topic("spoiled-boxes", mode="batch", count=2)


@handlers.chunk("shop.bad", topic="spoiled-boxes", split=False, retry=TWICE)
async def bad(events: EventChunk[dict], ctx: EventContext) -> None:
    raise ValueError("a bad box")


@handlers.event("shop.spoils", retry=TWICE)
async def spoils(event: Event[dict], ctx: EventContext) -> None: ...


handlers.topic("hopeless-boxes", mode="batch", count=2)
handlers.topic("spoiling-boxes", mode="batch", count=2)


@handlers.chunk("shop.hopeless", topic="hopeless-boxes", retry=TWICE)
async def hopeless(events: EventChunk[dict], ctx: EventContext) -> None:
    raise ValueError("all boxes are bad")


@handlers.chunk("shop.spoiling", topic="spoiling-boxes", split=False, retry=TWICE)
async def spoiling(events: EventChunk[dict], ctx: EventContext) -> None: ...


@handlers.on_start
async def started(worker: WorkerInfo, till: Till) -> None:
    say("on_start", worker=worker.name, taken=till.taken > 0)


@handlers.on_stop
async def stopped(worker: WorkerInfo, till: Till) -> None:
    say("on_stop", worker=worker.name)


@handlers.on_error
async def failed(attempt: FailedAttempt, ledger: asyncpg.Connection) -> None:
    table = "commands" if attempt.kind == "command" else "events"
    row = await ledger.fetchrow(
        f"select attempts, status from inboxd.{table} where id = $1", attempt.id
    )
    say(
        "on_error", error=type(attempt.error).__name__, message=attempt.message,
        outcome=attempt.outcome, retries=attempt.retry_at is not None, kind=attempt.kind,
        id=attempt.id, type=attempt.type, topic=attempt.topic, queue=attempt.queue,
        plugin=attempt.plugin, attempt=attempt.attempt, tenant=attempt.tenant,
        correlation_id=attempt.correlation_id, events=attempt.events, worker=attempt.worker.name,
        written=row["attempts"],
    )
"""


# A row that the database refuses only at the commit.
REFUSE = """
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'at commit' using errcode = '23514'; end $$;
create constraint trigger refuse after insert on inboxd.events_history
    deferrable initially deferred for each row when (new.type like 'shop.spoil%')
    execute function refuse();
"""


@pytest.fixture
def shop(tmp_path: Path, own: Inbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the plugin, for a worker's path."""
    monkeypatch.setenv("SHOP_DSN", own.database.dsn)
    return install(tmp_path / "shop", "shop", SHOP)


def said(worker: Worker, what: str) -> list[dict[str, Any]]:
    lines = [line for line in worker.output().splitlines() if '"said"' in line]
    return [line for line in map(json.loads, lines) if line["said"] == what]


async def test_every_kind_of_handler_gets_the_opened_resources(
    own: Inbox, start_worker: StartWorker, shop: Path
) -> None:
    hasty = {"heartbeat_interval": "200ms", "lease": "2s"}
    with found(shop):
        worker = await start_worker({"worker": {"plugins": ["shop"], "name": "till-1", **hasty}})
    events = await own.write_many("event", "shop.event", [{}])
    events += await own.write_many("event", "shop.later", [{}])
    events += await own.write_many("event", "shop.boxed", [{}, {}])
    await own.succeeded("event", *events)
    commands = [await own.write("command", f"shop.{each}") for each in ("thread", "loop")]
    await own.succeeded("command", *commands)
    for what in ("drawer", "event", "later", "chunk", "thread", "loop"):
        await worker.logged(f"took {what}")
    await own.database.execute("update inboxd.workers set state = 'dead', ended_at = now()")
    await worker.logged("this worker was declared dead")
    again = await own.write("command", "shop.loop")
    row = await own.settled("command", again)
    assert json.loads(row["result"]) == 7, "the resource survives a declared death"
    assert await worker.stop() == 0
    assert said(worker, "on_start") == [{"said": "on_start", "worker": "till-1", "taken": True}]
    assert len(said(worker, "till opened")) == 1
    output = worker.output()
    ends = [output.index(f'"{each}"') for each in ("on_stop", "drawer closed", "till closed")]
    assert ends == sorted(ends)
    assert output.index('"draining"') < ends[0]


async def test_hooks_are_called_after_a_failure_is_written(
    own: Inbox, start_worker: StartWorker, shop: Path
) -> None:
    with found(shop):
        worker = await start_worker({"worker": {"plugins": ["shop"], "name": "till-1"}})
    command = await own.write("command", "shop.fails", {"pin": "s3cret"}, tenant="acme")
    misfit = await own.write("event", "shop.misfit", {"pin": "s3cret"}, correlation_id="story")
    boxes = await own.write_many("event", "shop.bad", [{"pin": "s3cret"}] * 2)

    async def all_told() -> list[dict[str, Any]]:
        found = said(worker, "on_error")
        return found if len(found) == 5 else []

    told = await eventually(all_told)
    first, last = (each for each in told if each["kind"] == "command")
    assert (first["outcome"], first["retries"], first["attempt"]) == ("retrying", True, 1)
    assert (last["outcome"], last["retries"], last["attempt"]) == ("dead", False, 2)
    assert last["id"] == command
    assert (last["message"], last["error"]) == ("ValueError: no coins", "ValueError")
    assert (last["queue"], last["topic"], last["tenant"]) == ("default", None, "acme")
    assert (last["plugin"], last["type"], last["worker"]) == ("shop", "shop.fails", "till-1")
    (event,) = (each for each in told if each["kind"] == "event")
    assert (event["id"], event["outcome"], event["error"]) == (misfit, "dead", "PayloadError")
    assert (event["topic"], event["queue"]) == ("default", None)
    assert event["correlation_id"] == "story"
    first, last = (each for each in told if each["kind"] == "chunk")
    assert (first["outcome"], last["outcome"]) == ("retrying", "dead")
    assert (last["id"], last["events"], last["topic"]) == (boxes[0], 2, "spoiled-boxes")
    # The next attempt may have begun when the hook reads the row.
    assert all(each["written"] >= each["attempt"] for each in told), (
        "the hook runs after the transaction"
    )
    assert "s3cret" not in worker.output()


@pytest.mark.parametrize("type_", ["shop.spoils", "shop.hopeless", "shop.spoiling"])
async def test_hooks_are_called_once_for_each_failed_attempt(
    own: Inbox, start_worker: StartWorker, shop: Path, type_: str
) -> None:
    """A failing commit is found by running again; a chunk that fails is halved first."""
    await own.database.execute(REFUSE)
    with found(shop):
        worker = await start_worker({"worker": {"plugins": ["shop"]}})
    rows = await own.write_many("event", type_, [{}] * 2)
    for row_id in rows:
        await own.dead("event", row_id)
    assert await worker.stop() == 0
    told = sorted((each["id"], each["attempt"]) for each in said(worker, "on_error"))
    both = [(row_id, attempt) for row_id in rows for attempt in (1, 2)]
    assert told == (both if type_ == "shop.spoils" else both[:2])
    kind = ("event", 1) if type_ == "shop.spoils" else ("chunk", 2)
    assert {(each["kind"], each["events"]) for each in said(worker, "on_error")} == {kind}


async def test_deferrals_and_drains_call_no_error_hook(
    own: Inbox, start_worker: StartWorker, shop: Path
) -> None:
    with found(shop):
        worker = await start_worker(
            {"worker": {"plugins": ["shop", "testplugin"], "drain_timeout": "100ms"}}
        )
    deferred = await own.write("command", "test.misbehave", {"how": "defer", "seconds": 3600})
    await worker.logged('"outcome":"deferred"')
    drained = await own.write("command", "test.wait", {"wait": 3600})
    await own.running(drained)
    assert await worker.stop() == 0
    assert said(worker, "on_error") == []
    row = await own.hot("command", deferred)
    assert row is not None
    assert row["attempts"] == 0
