"""A plugin as its author writes it, without an error of mypy --strict. Checked, not run."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, assert_type
from uuid import UUID

from pydantic import BaseModel

from inboxd import (
    Batch,
    BlockingCommandContext,
    BlockingConnection,
    BlockingEventChunk,
    BlockingEventContext,
    Broker,
    BrokerUnavailable,
    Call,
    CommandContext,
    Connection,
    Defer,
    Event,
    EventChunk,
    EventContext,
    Explicit,
    Exponential,
    FailedAttempt,
    Handlers,
    MessageRefused,
    OutgoingMessage,
    Proceed,
    Publisher,
    Record,
    Reject,
    Retry,
    Step,
    Tell,
    WorkerInfo,
    Workflow,
)
from inboxd.client import Emitted, Inbox, NewCommand, NewEvent, NewStep, Sent

handlers = Handlers("school")


class ActivityCreated(BaseModel):
    activity_id: int


class SendEmail(BaseModel):
    student_id: int


@dataclass
class Render:
    """A command that is a dataclass."""

    html: str


@handlers.event("activity.created", schema_version=2, timeout="5s")
async def notify(event: Event[ActivityCreated], ctx: EventContext) -> None:
    assert_type(event.payload, ActivityCreated)
    assert_type(ctx.connection, Connection)
    rows = await ctx.connection.fetch("select student_id from enrolments")
    for row in rows:
        assert_type(row, Record)
        assert_type(ctx.send(SendEmail(student_id=row["student_id"]), delay="5s"), UUID)
    async with ctx.connection.transaction():
        await ctx.connection.execute("select 1")
    ctx.log.info("notified", students=len(rows))


class ActivityEnded(BaseModel):
    """A class that names its type, as an event and as a command."""

    inboxd_event: ClassVar[str] = "activity.ended"
    inboxd_command: ClassVar[str] = "school.end_activity"
    inboxd_version: ClassVar[int] = 2

    activity_id: int


@handlers.event("activity.created")
async def emits(event: Event[ActivityCreated], ctx: EventContext) -> None:
    assert_type(ctx.emit(ActivityEnded(activity_id=1)), UUID)
    ctx.emit(ActivityCreated(activity_id=1), topic="later", dedup_key="1", headers={"a": 1})
    ctx.emit("activity.ended", {"activity_id": 1}, ordering_key="1", tenant=None)
    ctx.emit("activity.ended")
    ctx.send(ActivityEnded(activity_id=1))
    inbox, ended = Inbox(), ActivityEnded(activity_id=1)
    assert_type(await inbox.emit(ctx.connection, ended, tenant="a"), Emitted)
    assert_type(await inbox.emit_many(ctx.connection, [ended, NewEvent("a.b")]), list[Emitted])
    assert_type(await inbox.send(ctx.connection, ended, priority=1), Sent)
    await inbox.send_many(ctx.connection, [NewCommand(ended, priority=1), ended])
    await inbox.send_batch(ctx.connection, "all", [ended], then=ended, otherwise=[ended])
    steps = [NewStep("one", ended), NewStep("two", NewCommand(ended), after="one")]
    await inbox.send_workflow(ctx.connection, "steps", steps)
    assert_type(NewEvent(ended, dedup_key="1").type, str)


@handlers.command("school.emit")
def emits_from_a_thread(command: SendEmail, ctx: BlockingCommandContext) -> None:
    ctx.emit(ActivityEnded(activity_id=1))
    assert_type(Inbox().emit(ctx.connection, ActivityEnded(activity_id=1)), Emitted)


@handlers.event("activity.published")
async def publish(event: Event[ActivityCreated], ctx: EventContext) -> None:
    mails = ctx.batch([SendEmail(student_id=1)], name="mails", queue="email", tenant="a")
    assert_type(mails, Batch)
    assert_type(mails.then(Render("done"), delay="1s").otherwise(Render("failed")), Batch)
    assert_type(ctx.add_to(mails.id, [SendEmail(student_id=2)], priority=1), list[UUID])
    ctx.close_batch(mails.id)
    workflow = ctx.workflow("seed")
    first = workflow.step("first", Render(""), queue="slow")
    assert_type(first, Step)
    emails = workflow.batch("emails", [SendEmail(student_id=1)], after=[first, "late"])
    workflow.step("late", Render(""), after=first.failed)
    assert_type(workflow.chain(Render("1"), Render("2"), after=emails), list[Step])
    assert_type(workflow.finally_(Render("")), Workflow)


@handlers.command("school.read")
async def read(command: SendEmail, ctx: CommandContext) -> None:
    assert_type(await ctx.result("first"), Any)


@handlers.command("school.read_sync")
def read_sync(command: list[str], ctx: BlockingCommandContext) -> None:
    assert_type(ctx.result("first"), Any)


@handlers.event("activity.created")
def count(event: Event[dict[str, Any]], ctx: BlockingEventContext) -> None:
    assert_type(ctx.connection, BlockingConnection)
    with ctx.connection.transaction():
        ctx.connection.execute("update activities set seen = seen + 1")


@handlers.event("activity.created", as_command=True, queue="slow")
async def export(event: Event[ActivityCreated], ctx: CommandContext) -> str:
    return f"{event.event_id} {ctx.idempotency_key}"


@handlers.event("activity.created", as_command=True, executor="process")
def convert(event: Event[ActivityCreated]) -> bytes:
    return b""


@handlers.command("school.send_email", queue="email", retry=Exponential(base="2s", attempts=15))
async def send_email(command: SendEmail, ctx: CommandContext) -> None:
    match command.student_id:
        case 1:
            raise Retry(after="5m", reason="busy")
        case 2:
            raise Defer(until=datetime(2030, 1, 1, tzinfo=UTC))
        case 3:
            raise Reject("no address")


@handlers.command("school.sync", retry=Explicit(delays=("1s", "1m")))
def sync_email(command: list[int], ctx: BlockingCommandContext) -> int:
    return sum(command)


@handlers.command("school.render", executor="process", timeout="1m")
def render(command: Render) -> int:
    return len(command.html)


@handlers.middleware
async def timed(call: Call, proceed: Proceed) -> object:
    return await proceed()


@handlers.upcaster("activity.created", from_version=1)
def rename(payload: dict[str, Any]) -> dict[str, Any]:
    return {"activity_id": payload["id"]}


# Decorated functions stay unchanged, so that tests may call them.
assert_type(render(Render("")), int)


@handlers.command("school.import")
async def long_import(command: SendEmail, ctx: CommandContext) -> None:
    ctx.progress(3)
    ctx.progress(3.5, 10, "students")
    ctx.progress(done=1, of=2, note=None)


@handlers.command("school.import_blocking")
def blocking_import(command: SendEmail, ctx: BlockingCommandContext) -> None:
    ctx.progress(3, 10)


class Client:
    """The resource of a lifespan."""


@handlers.lifespan
async def client() -> AsyncIterator[Client]:
    yield Client()


@handlers.lifespan(timeout="2m")
async def bank(client: Client) -> AsyncIterator[Annotated[Client, "bank"]]:
    yield client


@handlers.lifespan
def blocking() -> Iterator[bytes]:
    yield b""


@handlers.event("activity.created")
async def event_takes(event: Event[ActivityCreated], ctx: EventContext, http: Client) -> None: ...


@handlers.event("activity.created")
def thread_takes(event: Event[int], ctx: BlockingEventContext, *, http: Client) -> None: ...


@handlers.event("activity.created", as_command=True, queue="slow")
async def later_takes(event: Event[int], ctx: CommandContext, http: Client, file: bytes) -> None:
    assert_type(http, Client)


@handlers.chunk("activity.created", topic="daily")
async def chunk_takes(events: EventChunk[int], ctx: EventContext, http: Client) -> None: ...


@handlers.chunk("activity.created", topic="nightly")
def chunk_in_thread(
    events: BlockingEventChunk[int], ctx: BlockingEventContext, http: Client
) -> None: ...


@handlers.command("school.pay", queue="bank")
async def pay(
    command: SendEmail, ctx: CommandContext, http: Annotated[Client, "bank"]
) -> dict[str, int]:
    return {}


@handlers.command("school.pay_blocking")
def pay_blocking(command: SendEmail, ctx: BlockingCommandContext, http: Client) -> int:
    return 1


@handlers.middleware
async def logged(call: Call, proceed: Proceed, http: Client) -> object:
    return await proceed()


@handlers.on_start
async def started(worker: WorkerInfo) -> None:
    assert_type(worker.id, UUID)


@handlers.on_stop
async def stopped(worker: WorkerInfo, http: Client) -> None: ...


@handlers.on_error
async def failed(attempt: FailedAttempt, http: Client) -> None:
    assert_type(attempt.error, BaseException)
    assert_type(attempt.retry_at, datetime | None)


handlers.schedule("daily", "0 3 * * *", SendEmail(student_id=1), zone="Europe/Berlin", missed="all")
handlers.schedule("began", "0 0 * * *", event="day.began", time_field="at", topic="days")
handlers.schedule("named", "0 0 * * *", {"a": 1}, command="school.render", queue="q", priority=3)


class Pigeons:
    """A publisher, which an entry point of `inboxd.publishers` opens."""

    def __init__(self, loft: str, password: str | None) -> None:
        self.loft, self.password = loft, password
        self.sent: list[tuple[str, bytes]] = []

    async def publish(self, messages: Sequence[OutgoingMessage], tell: Tell) -> None:
        for place, message in enumerate(messages):
            if len(message.body) > 100:
                tell(place, MessageRefused("it is too heavy.", for_good=True))
                continue
            self.sent.append((message.to, message.body))
            tell(place, None)

    async def close(self) -> None: ...


async def open_publisher(name: str, broker: Broker) -> Publisher:
    if not broker.options:
        raise BrokerUnavailable(f"{name} has no loft: set options in [brokers.{name}].")
    return Pigeons(broker.options["loft"], await asyncio.to_thread(broker.secret))
