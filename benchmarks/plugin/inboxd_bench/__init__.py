"""The handlers that the benchmarks measure: each takes a pydantic model, and counts its call."""

import time

from pydantic import BaseModel

from inboxd import CommandContext, Event, EventChunk, EventContext, Handlers
from inboxd_bench.marks import Marks

handlers = Handlers("bench")
marks = Marks.of_this_process()


class Load(BaseModel):
    """The payload of most rows; `pad` gives it the wanted size."""

    n: int
    pad: str


class Sent(BaseModel):
    """The payload of rows of `latency`: the time of sending, by the machine's clock."""

    sent: float


@handlers.event("bench.noop")
async def noop_event(event: Event[Load], ctx: EventContext) -> None:
    marks.called()


handlers.topic("lines", mode="sequential", key="/key")


@handlers.event("bench.turn", topic="lines")
async def turn_event(event: Event[Load], ctx: EventContext) -> None:
    """Do nothing but count, in the order of the key."""
    marks.called()


@handlers.event("bench.send")
async def sending_event(event: Event[Load], ctx: EventContext) -> None:
    """Send one command with the same payload."""
    marks.called()
    ctx.send(event.payload, type="bench.noop")


@handlers.event("bench.keep")
async def keeping_event(event: Event[Load], ctx: EventContext) -> None:
    """Send one command to a queue that the benchmark's worker does not serve."""
    marks.called()
    ctx.send(event.payload, type="bench.kept")


@handlers.event("bench.emit")
async def emitting_event(event: Event[Load], ctx: EventContext) -> None:
    """Emit one event with the same payload, for which there is no handler."""
    marks.called()
    ctx.emit("bench.kept", event.payload)


@handlers.event("bench.latency")
async def latency_event(event: Event[Sent], ctx: EventContext) -> None:
    """Record the time since the event was sent."""
    marks.note(time.monotonic() - event.payload.sent)


handlers.topic("bench-chunks", mode="batch", count=1_000)


@handlers.chunk("bench.chunked", topic="bench-chunks")
async def noop_chunk(events: EventChunk[Load], ctx: EventContext) -> None:
    """Do nothing but count, with a chunk."""
    marks.called(len(events))


handlers.topic("bench-long", mode="batch", cron="0 0 * * *")


@handlers.chunk("bench.long", topic="bench-long")
async def long_chunk(events: EventChunk[Load], ctx: EventContext) -> None:
    """Read a chunk that may be very long."""
    async for portion in events.portions():
        marks.called(len(portion))


@handlers.command("bench.latency")
async def latency_command(command: Sent, ctx: CommandContext) -> None:
    """Record the time since the command was sent."""
    marks.note(time.monotonic() - command.sent)


@handlers.command("bench.noop")
async def noop_command(command: Load, ctx: CommandContext) -> None:
    marks.called()


@handlers.command("bench.kept", queue="kept")
async def kept_command(command: Load, ctx: CommandContext) -> None:
    """Do nothing but count, in another queue."""
    marks.called()


@handlers.command("bench.insert")
async def inserting_command(command: Load, ctx: CommandContext) -> None:
    """Write one row in the command's own transaction."""
    marks.called()
    await ctx.connection.execute("insert into ledger (n, note) values ($1, $2)", command.n, "done")
