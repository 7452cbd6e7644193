"""The handlers that the benchmarks measure: each takes a pydantic model, and counts its call."""

import time

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventChunk, EventContext, Handlers
from inboxd_bench.marks import Marks

handlers = Handlers("bench")
marks = Marks.of_this_process()


class Load(BaseModel):
    """What most rows carry; `pad` makes the payload as heavy as wanted."""

    n: int
    pad: str


class Sent(BaseModel):
    """What the latency's rows carry: when their producer sent them, by the machine's clock."""

    sent: float


@handlers.event("bench.noop")
async def noop_event(event: Event[Load], ctx: EventContext) -> None:
    """Do nothing."""
    marks.called()


handlers.topic("lines", mode="sequential", key="/key")


@handlers.event("bench.turn", topic="lines")
async def turn_event(event: Event[Load], ctx: EventContext) -> None:
    """Do nothing, in its turn."""
    marks.called()


@handlers.event("bench.send")
async def sending_event(event: Event[Load], ctx: EventContext) -> None:
    """Send one command, of the same payload."""
    marks.called()
    ctx.send(event.payload, type="bench.noop")


@handlers.event("bench.keep")
async def keeping_event(event: Event[Load], ctx: EventContext) -> None:
    """Send one command to a queue that the benchmark's worker does not serve."""
    marks.called()
    ctx.send(event.payload, type="bench.kept")


@handlers.event("bench.emit")
async def emitting_event(event: Event[Load], ctx: EventContext) -> None:
    """Emit one event, of the same payload, which nobody handles."""
    marks.called()
    ctx.emit("bench.kept", event.payload)


@handlers.event("bench.latency")
async def latency_event(event: Event[Sent], ctx: EventContext) -> None:
    """Note how long the event was under way."""
    marks.note(time.monotonic() - event.payload.sent)


handlers.topic("bench-chunks", mode="batch", count=1_000)


@handlers.chunk("bench.chunked", topic="bench-chunks")
async def noop_chunk(events: EventChunk[Load], ctx: EventContext) -> None:
    """Do nothing, with a chunk."""
    marks.called(len(events))


handlers.topic("bench-long", mode="batch", cron="0 0 * * *")


@handlers.chunk("bench.long", topic="bench-long")
async def long_chunk(events: EventChunk[Load], ctx: EventContext) -> None:
    """Read a chunk that may be very long."""
    async for portion in events.portions():
        marks.called(len(portion))


@handlers.command("bench.latency")
async def latency_command(command: Sent, ctx: CommandContext) -> None:
    """Note how long the command was under way."""
    marks.note(time.monotonic() - command.sent)


@handlers.command("bench.noop")
async def noop_command(command: Load, ctx: CommandContext) -> None:
    """Do nothing."""
    marks.called()


@handlers.command("bench.kept", queue="kept")
async def kept_command(command: Load, ctx: CommandContext) -> None:
    """Do nothing, in a queue of its own."""
    marks.called()


@handlers.command("bench.insert")
async def inserting_command(command: Load, ctx: CommandContext) -> None:
    """Write one row in the command's own transaction."""
    marks.called()
    await ctx.connection.execute("insert into ledger (n, note) values ($1, $2)", command.n, "done")
