"""Handlers that emit events, and handlers of these events: each writes a line to the ledger."""

import os
import signal
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    BlockingEventContext,
    CommandContext,
    Event,
    EventChunk,
    EventContext,
    Fixed,
    Handlers,
)

_NOTE = "insert into ledger (kind, row_id, note) values ($1, $2, $3)"
_QUICK = Fixed(base="100ms", attempts=3, jitter="none")


class Told(BaseModel):
    """An emitted event, which goes to two topics."""

    inboxd_event: ClassVar[str] = "emitted.told"

    n: int = 0
    # Whether its handler sends a command that emits again.
    goes_on: bool = False


class Passed(BaseModel):
    """An event of a line, whose handler emits it to another key of the same topic, `left` times."""

    key: str
    to: str
    left: int = 0


class Emit(BaseModel):
    """The events to emit, and the handler's end. uses: write in the handler's transaction too."""

    count: int = 1
    goes_on: bool = False
    uses: bool = False
    ends: Literal["well", "at attempt 2", "refused", "killed"] = "well"
    options: dict[str, Any] = {}
    n: int = 0
    webhook: str | None = None


def _emit(emit: Emit, ctx: Any) -> None:
    if emit.webhook is not None:
        ctx.webhook(emit.webhook, {"n": emit.n})
    for n in range(emit.count):
        ctx.emit(Told(n=emit.n + n, goes_on=emit.goes_on), **emit.options)
    if emit.ends == "at attempt 2" and ctx.attempt == 1:
        raise ValueError("as told")
    if emit.ends == "refused":
        # Only the database knows that the topic, of whatever plugin, has another mode.
        ctx.emit("emitted.told", {}, topic="passing", mode="single")
    if emit.ends == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


async def _event(event: Event[Emit], ctx: EventContext) -> None:
    if event.payload.uses:
        await ctx.connection.execute(_NOTE, "emitting", event.id, "")
    _emit(event.payload, ctx)


def _event_in_thread(event: Event[Emit], ctx: BlockingEventContext) -> None:
    _emit(event.payload, ctx)


async def _command(command: Emit, ctx: CommandContext) -> None:
    if command.uses:
        await ctx.connection.execute(_NOTE, "emitting", ctx.id, "")
    _emit(command, ctx)


def _command_in_thread(command: Emit, ctx: BlockingCommandContext) -> None:
    if command.uses:
        ctx.connection.execute(_NOTE, "emitting", ctx.id, "")
    _emit(command, ctx)


async def _told(event: Event[Told], ctx: EventContext) -> None:
    await ctx.connection.execute(_NOTE, event.topic, event.id, str(event.payload.n))
    if event.payload.goes_on and event.topic == "told-two":
        ctx.send({"n": 100}, type="emitting.command")


async def _passed(event: Event[Passed], ctx: EventContext) -> None:
    one = event.payload
    await ctx.connection.execute(_NOTE, one.key, event.id, str(one.left))
    if one.left:
        ctx.emit(Passed(key=one.to, to=one.key, left=one.left - 1))


async def _chunk(events: EventChunk[Emit], ctx: EventContext) -> None:
    async for event in events:
        _emit(event.payload, ctx)


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.event("emitting.event", retry=_QUICK)(_event)
    handlers.event("emitting.thread", retry=_QUICK)(_event_in_thread)
    handlers.command("emitting.command", retry=_QUICK)(_command)
    handlers.command("emitting.command_in_thread", retry=_QUICK)(_command_in_thread)
    handlers.event("emitted.told", topic="told-one")(_told)
    handlers.event("emitted.told", topic="told-two")(_told)
    handlers.topic("passing", mode="sequential", key="/key", retry=_QUICK)
    handlers.event("emitting.passed", topic="passing")(_passed)
    handlers.topic("emitting-chunks", mode="batch", count=3, retry=_QUICK)
    handlers.chunk("emitting.chunked", topic="emitting-chunks")(_chunk)
