"""Mistakes that mypy --strict finds in a plugin author's editor; each line names its error code."""

from typing import ClassVar

from pydantic import BaseModel

import inboxd
from inboxd import (
    BlockingCommandContext,
    Broker,
    CommandContext,
    Event,
    EventChunk,
    EventContext,
    Exponential,
    FailedAttempt,
    Handlers,
    OutgoingMessage,
    Publisher,
    Retry,
    WorkerInfo,
)
from inboxd.client import Inbox, NewEvent

handlers = Handlers("school")
inboxd.Handeler("school")  # E: attr-defined


class Payload(BaseModel):
    number: int


class Named(Payload):
    """An event class that names its type."""

    inboxd_event: ClassVar[str] = "a.named"


@handlers.event("a.b")  # E: type-var
async def takes_no_event(event: Payload, ctx: EventContext) -> None: ...


@handlers.event("a.b")  # E: type-var
async def takes_the_other_context(event: Event[Payload], ctx: CommandContext) -> None: ...


@handlers.event("a.b")  # E: type-var
def is_sync(event: Event[Payload], ctx: EventContext) -> None: ...


@handlers.event("a.b", queue="slow")  # E: call-overload untyped-decorator
async def has_no_queue(event: Event[Payload], ctx: EventContext) -> None: ...


@handlers.command("a.c", executor="process")  # E: type-var
def has_a_context(command: Payload, ctx: BlockingCommandContext) -> None: ...


@handlers.event("a.b")  # E: type-var
async def takes_another_context_and_more(
    event: Event[Payload], ctx: CommandContext, http: str
) -> None: ...


@handlers.event("a.b")  # E: type-var
async def has_no_context(event: Event[Payload]) -> None: ...


@handlers.event("a.b")  # E: type-var
async def has_a_resource_for_a_context(event: Event[Payload], http: str) -> None: ...


@handlers.event("a.b", as_command=True)  # E: type-var
async def is_sent_on(event: Event[Payload], ctx: EventContext, http: str) -> None: ...


@handlers.chunk("a.b", topic="a")  # E: type-var
async def takes_no_chunk(event: Event[Payload], ctx: EventContext, http: str) -> None: ...


@handlers.chunk("a.b", topic="a")  # E: type-var
async def takes_a_command(events: EventChunk[int], ctx: CommandContext, http: str) -> None: ...


@handlers.command("a.c")  # E: type-var
def is_blocking(command: Payload, ctx: CommandContext, http: str) -> None: ...


@handlers.command("a.c", executor="process")  # E: type-var
def has_a_resource(command: Payload, http: str) -> None: ...


@handlers.lifespan  # E: type-var
async def yields_nothing() -> str:
    return ""


@handlers.lifespan(timeout=30)  # E: call-overload untyped-decorator
async def waits() -> None: ...


@handlers.on_error  # E: type-var
async def hears_of_the_worker(worker: WorkerInfo) -> None: ...


@handlers.on_start  # E: type-var
def is_no_coroutine(worker: WorkerInfo) -> None: ...


@handlers.on_stop  # E: type-var
async def hears_of_failures(failed: FailedAttempt, http: str) -> None: ...


@handlers.command("a.c", retry=3)  # E: call-overload untyped-decorator
async def has_no_policy(command: Payload, ctx: CommandContext) -> None: ...


@handlers.command("a.c", timeout=30)  # E: call-overload untyped-decorator
async def has_no_unit(command: Payload, ctx: CommandContext) -> None: ...


@handlers.event("a.b")
async def reads_wrongly(event: Event[Payload], ctx: EventContext) -> None:
    assert event.payload.nummer  # E: attr-defined
    event.payload = Payload(number=1)  # E: misc
    event.id = 3  # E: misc
    ctx.connection.fetch("select 1")  # E: unused-coroutine
    ctx.send(Payload(number=1), delay=5)  # E: arg-type
    ctx.batch([], quue="slow")  # E: call-arg
    ctx.workflow().step("a", Payload(number=1), after=3)  # E: arg-type
    Exponential(factor="2")  # E: arg-type
    raise Retry(after=[])  # E: arg-type


@handlers.event("a.b")
async def emits_wrongly(event: Event[Payload], ctx: EventContext) -> None:
    ctx.emit(Payload(number=1), {"number": 1})  # E: call-overload
    ctx.emit("a.c", {}, dedup=1)  # E: call-overload
    ctx.emit("a.c", {}, schema_version="2")  # E: call-overload
    await Inbox().emit(ctx.connection, Payload(number=1))  # E: call-overload
    await Inbox().send(ctx.connection, Named(number=1))  # E: call-overload
    await Inbox().emit_many(ctx.connection, [Named(number=1), Payload(number=1)])  # E: list-item
    NewEvent(Payload(number=1))  # E: call-overload
    NewEvent(Named(number=1), dedup="1")  # E: call-overload


@handlers.command("a.e")
async def forgets_to_wait(command: Payload, ctx: CommandContext) -> None:
    ctx.result("first")  # E: unused-coroutine


@handlers.command("a.f")
async def progresses_wrongly(command: Payload, ctx: CommandContext) -> None:
    ctx.progress("half")  # E: arg-type


handlers.schedule("a", "0 3 * * *", missed="maybe")  # E: arg-type
handlers.schedule("a")  # E: call-arg


class NeverTells:
    """A publisher that could not report the result of a message."""

    async def publish(self, messages: list[OutgoingMessage]) -> None: ...

    async def close(self) -> None: ...


async def open_publisher(name: str, broker: Broker) -> Publisher:
    return NeverTells()  # E: return-value
