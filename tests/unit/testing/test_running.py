"""`inboxd.testing` runs handlers as the daemon does, without PostgreSQL."""

import threading
from typing import Any, cast
from uuid import UUID

import anyio
import pytest
from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    BlockingEventContext,
    Call,
    CommandContext,
    Connection,
    Defer,
    Event,
    EventChunk,
    EventContext,
    Exponential,
    Fixed,
    Handlers,
    PayloadError,
    Proceed,
    Reject,
    Retry,
)
from inboxd.errors import HandlerTimeout, NoHandler, PluginError, UsageError
from inboxd.testing import (
    Dead,
    Deferred,
    Retrying,
    SentBatch,
    SentCommand,
    Succeeded,
    run_chunk,
    run_command,
    run_event,
)

pytestmark = pytest.mark.anyio


class Created(BaseModel):
    id: int


class Send(BaseModel):
    to: int


handlers = Handlers("school")


@handlers.event("a.created", schema_version=2)
async def greet(event: Event[Created], ctx: EventContext) -> None:
    ctx.send(Send(to=event.payload.id), delay="5s")


@handlers.upcaster("a.created", from_version=1)
def rename(payload: Any) -> Any:
    return {"id": payload["number"]}


@handlers.event("a.removed")
async def first(event: Event[Created], ctx: EventContext) -> None:
    ctx.send(Send(to=1))


@handlers.event("a.removed")
async def second(event: Event[Created], ctx: EventContext) -> None:
    if event.payload.id < 0:
        raise ValueError("no such student")
    await ctx.connection.execute("delete from students where id = $1", event.payload.id)


@handlers.event("a.exported", as_command=True)
def export(event: Event[Created], ctx: BlockingCommandContext) -> dict[str, object]:
    return {"id": event.payload.id, "attempt": event.attempt, "correlation": ctx.correlation_id}


@handlers.command("school.send", retry=Exponential(base="10s", attempts=3), timeout="50ms")
async def send(command: Send, ctx: CommandContext) -> None:
    match command.to:
        case 0:
            raise Reject("no address")
        case 1:
            raise Retry("90s")
        case 2:
            raise Defer(after="1h")
        case 3:
            await anyio.sleep_forever()
        case 4:
            raise SystemExit
        case 5:
            raise ConnectionError


def compute(command: int) -> list[bool]:
    return [command == 3, threading.current_thread() is threading.main_thread()]


handlers.command("school.compute", executor="process")(compute)


@handlers.middleware
async def tagged(call: Call, proceed: Proceed) -> object:
    result = await proceed()
    return result if result is None else {"by": call.type, "result": result}


async def test_event_and_the_commands_that_it_sends() -> None:
    result = await run_event(handlers, "a.created", {"id": 3}, tenant="acme")
    assert result.outcome == Succeeded()
    (sent,) = result.commands
    assert (sent.type, sent.queue, sent.payload) == ("school.send", "default", {"to": 3})
    assert (sent.draft.delay, sent.draft.tenant) == (5, "acme")


async def test_emitted_events_are_in_the_result() -> None:
    """Emitted by a command, by two handlers of an event, by a chunk; not by a failed handler."""
    telling = Handlers("telling")

    @telling.event("a.removed")
    async def tell(event: Event[Created], ctx: EventContext) -> None:
        ctx.emit(event.payload, topic="gone", dedup_key="d")

    @telling.event("a.removed")
    async def tell_too(event: Event[Created], ctx: EventContext) -> None:
        ctx.emit("a.told", {"by": "the second"})
        if event.payload.id < 0:
            raise ValueError("no such student")

    @telling.command("telling.tell")
    def tell_in_thread(command: int, ctx: BlockingCommandContext) -> None:
        ctx.emit("a.told", {"n": command})

    telling.topic("told", mode="batch", count=2)

    @telling.chunk("a.chunked", topic="told")
    async def tell_all(events: EventChunk[dict[str, int]], ctx: EventContext) -> None:
        ctx.batch([], name="none")
        ctx.emit("a.told", [event.payload["id"] async for event in events])

    result = await run_event(telling, "a.removed", {"id": 3}, tenant="acme")
    first, second = result.events
    assert (first.type, first.topic, first.payload) == ("a.removed", "gone", {"id": 3})
    assert (first.draft.tenant, first.draft.dedup_key) == ("acme", "d")
    assert (second.type, second.topic, second.payload) == ("a.told", None, {"by": "the second"})
    assert not (await run_event(telling, "a.removed", {"id": -3})).events
    (told,) = (await run_command(telling, "telling.tell", 7)).events
    assert told.payload == {"n": 7}
    given = [("a.chunked", {"id": n}) for n in (1, 2)]
    chunked = await run_chunk(telling, "told", given)
    assert [each.payload for each in chunked.events] == [[1, 2]]
    assert chunked.batches


async def test_webhooks_are_seen() -> None:
    handlers = Handlers("webhooks")

    @handlers.command("webhooks.tell")
    async def tell(command: int, ctx: CommandContext) -> None:
        ctx.emit("a.told")
        ctx.webhook("user.created", {"n": command}, message_id=f"m{command}")

    result = await run_command(handlers, "webhooks.tell", 7)
    (sent,) = result.webhooks
    assert (sent.type, sent.payload, sent.draft.message_id) == ("user.created", {"n": 7}, "m7")
    assert [each.type for each in result.events] == ["a.told"]
    assert "sent the webhook user.created" in repr(result)


async def test_payloads_may_be_models_or_bytes_of_any_version() -> None:
    for payload in (Created(id=3), b'{"id": 3}'):
        assert (await run_event(handlers, "a.created", payload)).commands[0].payload == {"to": 3}
    old = await run_event(handlers, "a.created", {"number": 3}, schema_version=1)
    assert old.commands[0].payload == {"to": 3}


async def test_a_wrong_payload_is_a_dead_letter() -> None:
    result = await run_event(handlers, "a.created", {"id": "x"})
    assert isinstance(result.outcome, Dead)
    assert result.outcome.failure.path == "id"
    assert isinstance(result.error, PayloadError)


async def test_several_handlers_fail_together() -> None:
    result = await run_event(handlers, "a.removed", {"id": -1})
    assert isinstance(result.outcome, Retrying)
    assert result.outcome.failure.error == "ValueError: no such student"
    assert not result.commands


async def test_a_connection_is_given_or_missed_clearly() -> None:
    class Recorder:
        async def execute(self, query: str, *args: object) -> str:
            return f"{query} {args}"

    connection = cast("Connection", Recorder())
    assert (await run_event(handlers, "a.removed", {"id": 1}, connection=connection)).commands
    with pytest.raises(UsageError, match=r"ctx\.connection\.execute was used: give"):
        await run_event(handlers, "a.removed", {"id": 1})


async def test_an_event_carried_by_a_command() -> None:
    result = await run_event(handlers, "a.exported", {"id": 1}, correlation_id="story", attempts=4)
    assert result.outcome == Succeeded(
        '{"by":"school.export","result":{"id":1,"attempt":5,"correlation":"story"}}'
    )


@pytest.mark.parametrize(
    ("to", "outcome"),
    [(0, Dead), (1, Retrying), (2, Deferred), (3, Retrying), (4, Retrying), (9, Succeeded)],
)
async def test_a_command_s_outcomes(to: int, outcome: type[object]) -> None:
    assert isinstance((await run_command(handlers, "school.send", Send(to=to))).outcome, outcome)


async def test_waits_are_known() -> None:
    asked = await run_command(handlers, "school.send", Send(to=1))
    assert isinstance(asked.outcome, Retrying)
    assert asked.outcome.delay == 90
    later = await run_command(handlers, "school.send", Send(to=5), attempts=1)
    assert isinstance(later.outcome, Retrying)
    assert later.outcome.delay == 20
    last = await run_command(handlers, "school.send", Send(to=5), attempts=2)
    assert isinstance(last.outcome, Dead)


async def test_a_timeout_is_named() -> None:
    result = await run_command(handlers, "school.send", Send(to=3))
    assert isinstance(result.error, HandlerTimeout)
    assert "send ran longer than 0.05 seconds" in str(result.error)


async def test_cpu_work_returns_its_result() -> None:
    result = await run_command(handlers, "school.compute", 3)
    assert result.outcome == Succeeded('{"by":"school.compute","result":[true,false]}')


async def test_mistakes_of_the_test_are_raised() -> None:
    with pytest.raises(NoHandler, match=r"no handler for the event 'a\.b'"):
        await run_event(handlers, "a.b", {})
    with pytest.raises(NoHandler, match=r"no handler for the command 'a\.b'"):
        await run_command(handlers, "a.b", {})
    with pytest.raises(UsageError, match="No such column: tennant"):
        await run_event(handlers, "a.created", {"id": 1}, tennant="acme")
    wrong = Handlers("wrong")
    wrong.event("a.b")(compute)  # type: ignore[type-var] # the tested mistake
    with pytest.raises(PluginError, match="takes the event or command, and its context"):
        await run_event(wrong, "a.b", {})


async def test_cancellation_passes_through() -> None:
    patient = Handlers("patient")

    @patient.command("wait", retry=Fixed())
    async def wait(command: Send, ctx: CommandContext) -> None:
        await anyio.sleep_forever()

    with anyio.move_on_after(0.01) as scope:
        await run_command(patient, "wait", {"to": 1})
    assert scope.cancelled_caught


# ------------------------------------------------------------------------ batches and workflows

grouping = Handlers("grouping")


@grouping.event("a.created")
async def notify_class(event: Event[Created], ctx: EventContext) -> None:
    mails = ctx.batch(name="mails")
    for to in range(event.payload.id):
        mails.add({"to": to}, type="mail")
    mails.then({}, type="tell").otherwise({}, type="alert")
    ctx.send({}, type="alone")


@grouping.event("a.seeded")
def seed(event: Event[Created], ctx: BlockingEventContext) -> None:
    workflow = ctx.workflow("seed")
    basic = workflow.step("basic", {}, type="basic")
    workflow.step("users", {}, type="users", after=basic)
    workflow.batch("mails", [{"to": 1}], type="mail", after=["users"]).finally_({}, type="tidy")
    workflow.step("alert", {}, type="alert", after=basic.failed)
    if event.payload.id < 0:
        workflow.step("a", {}, type="a", after="a2")
        workflow.step("a2", {}, type="a", after="a")


@grouping.command("grouping.fill")
async def fill(command: dict[str, str], ctx: CommandContext) -> Any:
    ctx.add_to(UUID(command["batch"]), [{"to": 1}, {"to": 2}], type="mail")
    ctx.close_batch(UUID(command["batch"]))
    return await ctx.result("count")


@grouping.command("grouping.sync")
def sync_(command: None, ctx: BlockingCommandContext) -> Any:
    return ctx.result("count")


async def test_batch_is_in_the_result_with_its_follow_up() -> None:
    result = await run_event(grouping, "a.created", {"id": 2})
    (batch,) = result.batches
    assert (batch.name, [sent.payload for sent in batch.commands]) == (
        "mails",
        [{"to": 0}, {"to": 1}],
    )
    assert [sent.type for sent in (*batch.then, *batch.otherwise)] == ["tell", "alert"]
    assert [sent.type for sent in result.commands] == ["alone"]


async def test_workflow_is_in_the_result_with_its_edges() -> None:
    result = await run_event(grouping, "a.seeded", {"id": 1})
    (workflow,) = result.workflows
    assert {name: step.after for name, step in workflow.steps.items()} == {
        "basic": {},
        "users": {"basic": "succeeded"},
        "mails": {"users": "succeeded"},
        "alert": {"basic": "failed"},
    }
    assert isinstance(workflow.steps["basic"].what, SentCommand)
    mails = workflow.steps["mails"].what
    assert isinstance(mails, SentBatch)
    assert [sent.type for sent in mails.finally_] == ["tidy"]
    assert workflow.batches == (mails,)


async def test_a_circle_fails_the_handler() -> None:
    result = await run_event(grouping, "a.seeded", {"id": -1})
    assert isinstance(result.error, UsageError)
    assert "in a circle: 'a2' -> 'a' -> 'a2'" in str(result.error)
    assert result.workflows == ()


async def test_batches_made_elsewhere_and_results_of_earlier_steps() -> None:
    batch = UUID(int=5)
    result = await run_command(
        grouping, "grouping.fill", {"batch": str(batch)}, results={"count": [3]}
    )
    assert result.outcome == Succeeded("[3]")
    assert [sent.payload for sent in result.added[batch]] == [{"to": 1}, {"to": 2}]
    assert result.closed == (batch,)
    sync = await run_command(grouping, "grouping.sync", None, results={"count": 4})
    assert sync.outcome == Succeeded("4")


async def test_missing_result_is_named() -> None:
    result = await run_command(grouping, "grouping.sync", None)
    assert "no result of 'count': this command is in no workflow" in str(result.error)
    result = await run_command(grouping, "grouping.sync", None, results={})
    assert "'count' has no result: give the test's" in str(result.error)
