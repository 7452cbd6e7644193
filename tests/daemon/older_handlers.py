"""A plugin that both the older and the newest code load: each effect is a row in `effects`.

See: test_older_code.py, which installs a copy of it.
"""

import asyncio
from typing import Any

import inboxd
from inboxd import CommandContext, Event, EventChunk, EventContext, Fixed, Handlers, Reject

handlers = Handlers("both")
handlers.topic("turns", mode="sequential", key="/key")
handlers.topic("chunks", mode="batch", key="/key", count=5, age="200ms")

_EFFECT = "insert into effects (kind, row_id, code) values ($1, $2, $3)"


async def _note(ctx: EventContext | CommandContext, kind: str, row_id: int) -> None:
    await ctx.connection.execute(_EFFECT, kind, row_id, inboxd.__file__)


async def take(event: Event[Any], ctx: EventContext) -> None:
    """Note the event; with "makes" in the payload, send a command and a batch."""
    await _note(ctx, "event", event.id)
    await asyncio.sleep(0.005)  # the handler's work, so that both workers get events
    if event.payload.get("makes"):
        ctx.send({}, type="both.act")
        ctx.batch([{}, {}], name="made", type="both.act").then({}, type="both.after")


async def take_chunk(events: EventChunk[Any], ctx: EventContext) -> None:
    async for event in events:
        await _note(ctx, "event", event.id)


async def act(command: dict[str, Any], ctx: CommandContext) -> None:
    """Note the command; if it is "broken", reject it until the table `mended` says otherwise."""
    if command.get("broken") and not await ctx.connection.fetchval("select mended from mended"):
        raise Reject("not mended yet")
    await _note(ctx, "command", ctx.id)
    await asyncio.sleep(0.005)  # the handler's work


handlers.event("both.fact")(take)
handlers.event("both.turn", topic="turns")(take)
handlers.chunk("both.item", topic="chunks")(take_chunk)
for name in ("act", "after", "step", "tick"):
    handlers.command(f"both.{name}", retry=Fixed(base="100ms", attempts=3))(act)
handlers.command("both.keyed", queue="keyed")(act)
handlers.command("both.limited", queue="limited")(act)
