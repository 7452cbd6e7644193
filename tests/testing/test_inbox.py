"""The fixture `inbox`: a test writes, drains, and checks the outcome."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import ClassVar

import anyio
import anyio.to_thread
import psycopg
import pytest
from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Defer,
    Event,
    EventContext,
    Exponential,
    FailedAttempt,
    Handlers,
    Reject,
    Retry,
    WorkerInfo,
)
from inboxd.client import NewCommand, NewEvent
from inboxd.errors import DrainTimeout, HandlersFailed, UsageError
from inboxd.testing import TestInbox
from tests.support.waiting import patient

handlers = Handlers("shop")

# A handler waits for it, and blocks the event loop.
released = threading.Event()


class Placed(BaseModel):
    """An event that names its type."""

    inboxd_event: ClassVar[str] = "order.placed"

    order_id: int
    cents: int = 100


class Charge(BaseModel):
    """A command that names its type."""

    inboxd_command: ClassVar[str] = "shop.charge"

    order_id: int
    cents: int = 100


class Act(BaseModel):
    """The behaviour of a handler."""

    how: str = "well"
    n: int = 0


@handlers.event("order.placed")
async def place(event: Event[Placed], ctx: EventContext) -> None:
    ctx.send(Charge(order_id=event.payload.order_id, cents=event.payload.cents))


@handlers.command("shop.charge")
async def charge(command: Charge, ctx: CommandContext) -> str:
    await ctx.connection.execute("insert into charges values ($1)", command.order_id)
    ctx.emit("order.charged", {"order_id": command.order_id})
    return "charged"


@handlers.event("order.charged")
async def charged(event: Event[Act], ctx: EventContext) -> None:
    batch = ctx.batch([Act(n=n) for n in range(3)], name="parcels", type="shop.pack")
    batch.then(Act(how="after"), type="shop.post")


@handlers.command("shop.pack")
def pack(command: Act, ctx: BlockingCommandContext) -> int:
    return command.n


@handlers.command("shop.post")
async def post(command: Act, ctx: CommandContext) -> None:
    ctx.log.info("posted")


@handlers.command("shop.act", retry=Exponential(base="1m", attempts=2))
async def act(command: Act, ctx: CommandContext) -> None:
    match command.how:
        case "fail":
            raise ValueError("no money")
        case "reject":
            raise Reject("never")
        case "defer":
            raise Defer(after="1h")
        case "spin":
            raise Defer(after="0s")
        case "again":
            if ctx.attempt == 1:
                raise Retry(after="0s")
        case "hang":
            await anyio.sleep_forever()
        case "block":
            released.wait(patient())


@pytest.fixture
def inboxd_handlers() -> Handlers:
    return handlers


@pytest.fixture
def shop(inbox: TestInbox) -> TestInbox:
    inbox.execute("create table charges (order_id int)")
    return inbox


class Bank:
    """The resource of a lifespan."""

    def __init__(self, name: str) -> None:
        self.name = name


class Post:
    pass


# ------------------------------------------------------------------------------------- draining


def test_drain_runs_sent_emitted_and_batched_rows(shop: TestInbox) -> None:
    shop.emit(Placed(order_id=7))
    drained = shop.drain()
    types = [row.type for row in drained.succeeded]
    assert sorted(types) == sorted(
        ["order.placed", "shop.charge", "order.charged", *["shop.pack"] * 3, "shop.post"]
    )
    assert not drained.failed
    assert not drained.left
    assert shop.fetchval("select order_id from charges") == 7
    assert shop.assert_sent("shop.charge").result == "charged"


def test_nothing_runs_without_a_drain(shop: TestInbox) -> None:
    shop.send(Charge(order_id=7))
    time.sleep(0.1)
    assert [row.status for row in shop.commands()] == ["pending"]


@pytest.mark.anyio
async def test_inbox_works_in_an_async_test(shop: TestInbox) -> None:
    shop.send(Charge(order_id=7))
    assert shop.drain().succeeded
    shop.send(Charge(order_id=8))
    assert (await anyio.to_thread.run_sync(shop.drain)).succeeded


def test_rows_written_by_the_application_are_seen(shop: TestInbox) -> None:
    with psycopg.connect(shop.dsn) as connection:
        connection.execute(
            "insert into inboxd.commands (type, payload) values (%s, %s)",
            ("shop.charge", '{"order_id": 9}'),
        )
    shop.drain()
    shop.assert_sent("shop.charge", {"order_id": 9}, status="succeeded")
    assert shop.fetchval("select order_id from charges") == 9


def test_failed_handler_fails_the_test_with_its_traceback(shop: TestInbox) -> None:
    shop.send("shop.act", {"how": "fail"})
    with pytest.raises(HandlersFailed, match="A handler failed") as caught:
        shop.drain()
    message = str(caught.value)
    assert 'raise ValueError("no money")' in message
    assert "ValueError: no money" in message
    assert "command 1 shop.act (default, pending) {'how': 'fail'}" in message
    assert isinstance(caught.value, AssertionError)


def test_expected_failures_are_listed_by_outcome(shop: TestInbox) -> None:
    for how in ("fail", "reject", "defer", "again", "well"):
        shop.send("shop.act", {"how": how})
    drained = shop.drain(check=False)

    def how_of(rows: list[object]) -> list[str]:
        return [row.payload["how"] for row in rows]  # type: ignore[attr-defined]

    assert how_of([*drained.retrying]) == ["fail"]
    assert how_of([*drained.dead]) == ["reject"]
    assert how_of([*drained.deferred]) == ["defer"]
    assert how_of([*drained.succeeded]) == ["again", "well"]
    assert how_of([*drained.failed]) == ["reject", "fail"]
    assert not drained.left
    assert {row.payload["how"] for row in shop.drain().left} == {"fail", "defer"}


def test_rows_that_cannot_run_do_not_delay_a_drain(shop: TestInbox) -> None:
    """Paused, kept, future, waiting for another row, or behind a dead letter of the key."""
    shop.emit("not.subscribed")
    later = shop.fetchval("select now() + interval '1 hour'")
    shop.send("shop.act", run_at=later)
    shop.execute(
        "insert into inboxd.controls (kind, name, actor) values ('type', 'shop.post', 'me')"
    )
    shop.send("shop.post")
    for how in ("reject", "well"):
        shop.send("shop.act", {"how": how}, ordering_key="a")
    drained = shop.drain(check=False, timeout="10s")
    assert len(drained.dead) == 1
    assert len(drained.left) == 4


def test_endless_drain_names_the_due_rows_and_their_reasons(shop: TestInbox) -> None:
    shop.send("shop.act", {"how": "spin"})
    shop.send("shop.act", {"how": "hang"})
    with pytest.raises(DrainTimeout) as caught:
        shop.drain(timeout="1s")
    message = str(caught.value)
    assert "was not drained within 1 s" in message
    assert "- command 2 shop.act: its handler is still running" in message
    assert "{'how': 'spin'}: deferred, and due again at once" in message


def test_a_row_that_another_session_holds_is_named(shop: TestInbox) -> None:
    shop.send("shop.act")
    with psycopg.connect(shop.dsn) as connection:
        connection.execute("select from inboxd.commands for update")
        with pytest.raises(DrainTimeout, match="another session has locked it"):
            shop.drain(timeout="500ms")
    shop.drain()


def test_blocking_handler_is_shown_with_its_line(
    shop: TestInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.testing.inbox._GOODBYE_SECONDS", 0.5)
    shop.send("shop.act", {"how": "block"})
    try:
        with pytest.raises(DrainTimeout, match=r"released\.wait\(patient\(\)\)"):
            shop.drain(timeout="1s")
        with pytest.raises(DrainTimeout, match="blocked, since a handler did not end"):
            shop.commands()
    finally:
        released.set()


@pytest.mark.usefixtures("fresh_log")
def test_log_of_the_worker_is_the_log_of_pytest(
    shop: TestInbox, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("INFO"):
        shop.send("shop.post")
        shop.drain()
    assert "posted" in caplog.text
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------- assertions


def test_an_assertion_finds_rows_by_payload_and_columns(shop: TestInbox) -> None:
    shop.emit_many([NewEvent("order.placed", {"order_id": n, "cents": 5}) for n in (1, 2)])
    shop.send_many([NewCommand("shop.act", {"how": "well", "n": 3}, tenant="a")])
    assert shop.assert_emitted("order.placed").payload["order_id"] == 2
    assert shop.assert_emitted("order.placed", {"order_id": 1}, topic="default").id == 1
    shop.assert_emitted("order.placed", count=2)
    shop.assert_emitted(Placed(order_id=2, cents=5))
    shop.refute_emitted(Placed(order_id=2))
    shop.refute_emitted("order.charged")
    assert shop.assert_sent("shop.act", Act(n=3), tenant="a").queue == "default"
    shop.refute_sent("shop.act", {"n": 4})
    assert [event.payload["order_id"] for event in shop.events("order.placed")] == [1, 2]
    assert shop.commands(tenant="b") == []


def test_failed_assertion_shows_the_existing_rows(shop: TestInbox) -> None:
    shop.emit("order.placed", {"order_id": 1, "to": {"city": "Ulm", "zip": "89073"}})
    shop.emit("order.gone")
    with pytest.raises(AssertionError) as caught:
        shop.assert_emitted("order.placed", {"to": {"city": "Bonn"}, "vip": True}, tenant="a")
    asked = "{'to': {'city': 'Bonn'}, 'vip': True}"
    there = "{'to': {'zip': '89073', 'city': 'Ulm'}, 'order_id': 1}"
    assert str(caught.value).splitlines() == [
        f"There is no event order.placed with the payload {asked} tenant='a'.",
        f"- event 1 order.placed (default, pending) {there}",
        "    tenant is None, not 'a'",
        "    payload.to.city is 'Ulm', not 'Bonn'",
        "    payload.vip is missing",
        "Other events: order.gone (1)",
    ]
    with pytest.raises(AssertionError, match=r"There is 1 event order\.gone, not 2\."):
        shop.assert_emitted("order.gone", count=2)
    with pytest.raises(AssertionError, match="There are no commands at all"):
        shop.assert_sent(Charge(order_id=1))
    with pytest.raises(AssertionError, match=r"Not expected: event order\.gone\. There is:"):
        shop.refute_emitted("order.gone")


def test_wrong_columns_and_types_are_refused(shop: TestInbox) -> None:
    with pytest.raises(UsageError, match="did you mean 'topic'"):
        shop.events(topik="a")
    with pytest.raises(UsageError, match="Act names no type of events"):
        shop.assert_emitted(Act())  # type: ignore[arg-type]


# --------------------------------------------------------------------------------- other handlers


class TestSettings:
    """Settings of one class of tests."""

    @pytest.fixture
    def inboxd_settings(self) -> dict[str, dict[str, object]]:
        return {"queues": {"default": {"rate": "20/s"}}, "types": {"shop.act": {"queue": "slow"}}}

    def test_worker_has_the_settings_of_its_test(self, inbox: TestInbox) -> None:
        """The rate lets two begin at once, then one after the other."""
        inbox.send_many([NewCommand("shop.pack", {}) for _ in range(4)])
        inbox.send("shop.act")
        assert len(inbox.drain().succeeded) == 5
        assert inbox.assert_sent("shop.act").queue == "slow"


class TestResources:
    """Lifespans and hooks; one of two lifespans has a fake."""

    @pytest.fixture
    def told(self) -> list[str]:
        return []

    @pytest.fixture
    def inboxd_resources(self) -> dict[type, object]:
        return {Bank: Bank("fake")}

    @pytest.fixture
    def inboxd_handlers(self, told: list[str]) -> Handlers:
        plugin = Handlers("bank")

        @plugin.lifespan
        async def bank() -> AsyncIterator[Bank]:
            yield Bank("real")

        @plugin.lifespan
        async def post_office() -> AsyncIterator[Post]:
            told.append("opened")
            yield Post()
            told.append("closed")

        @plugin.on_error
        async def on_error(failed: FailedAttempt) -> None:
            told.append(failed.message)

        @plugin.command("bank.ask")
        async def ask(command: Act, ctx: CommandContext, bank: Bank, post: Post) -> str:
            if command.how == "fail":
                raise Reject("no")
            return bank.name

        return plugin

    def test_lifespans_without_a_fake_open_for_a_drain(
        self, inbox: TestInbox, told: list[str]
    ) -> None:
        inbox.send("bank.ask")
        inbox.send("bank.ask", {"how": "fail"})
        inbox.drain(check=False)
        assert [row.result for row in inbox.commands("bank.ask")] == ["fake", None]
        assert told == ["opened", "Reject: no", "closed"]


class TestStubbornHooks:
    """Hooks that ignore their cancellation."""

    @pytest.fixture
    def let_go(self) -> threading.Event:
        return threading.Event()

    @pytest.fixture(params=["on_error", "on_stop"])
    def inboxd_handlers(self, request: pytest.FixtureRequest, let_go: threading.Event) -> Handlers:
        plugin = Handlers("bank")

        async def stay() -> None:
            while not let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)

        async def stays_told(failed: FailedAttempt) -> None:
            await stay()

        async def stays_open(worker: WorkerInfo) -> None:
            await stay()

        if request.param == "on_error":
            plugin.on_error(stays_told)
        else:
            plugin.on_stop(stays_open)

        @plugin.command("bank.ask")
        async def ask(command: Act, ctx: CommandContext) -> None:
            raise Reject("no")

        return plugin

    def test_hook_that_does_not_end_fails_the_drain_by_name(
        self, inbox: TestInbox, let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for bound in ("_REMAINING", "_STOPPING", "_PATIENCE"):
            monkeypatch.setattr(f"inboxd.engine.hooks.{bound}", 0.05)
        monkeypatch.setattr("inboxd.testing.inbox._GOODBYE_SECONDS", 1.0)
        inbox.send("bank.ask")
        try:
            with pytest.raises(DrainTimeout, match=r"ignores its cancellation: \S+\.stays_"):
                inbox.drain(check=False, timeout="2s")
            assert inbox.assert_sent("bank.ask").status == "failed"
        finally:
            let_go.set()
