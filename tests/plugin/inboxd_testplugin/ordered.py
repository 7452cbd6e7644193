"""Events of sequential topics: each writes to `trail`, which shows their order."""

import asyncio
import os
import signal

from pydantic import BaseModel

from inboxd import Event, EventContext, Fixed, Handlers, Reject


class Turn(BaseModel):
    """It fails before attempt `good_at`, is rejected, kills its worker, or spoils its commit."""

    wait: float = 0
    good_at: int = 1
    refused: bool = False
    kills: bool = False
    spoils: bool = False


async def _take(event: Event[Turn], ctx: EventContext) -> None:
    turn = event.payload
    await ctx.connection.execute(
        "insert into trail (topic, key, event, attempt) values ($1, $2, $3, $4)",
        event.topic,
        event.ordering_key,
        event.id,
        ctx.attempt,
    )
    if turn.wait:
        await asyncio.sleep(turn.wait)  # the handler's work
    if turn.kills:
        os.kill(os.getpid(), signal.SIGKILL)
    if turn.refused:
        raise Reject("as told")
    if ctx.attempt < turn.good_at:
        raise ValueError("as told")
    if turn.spoils:
        # The database refuses this command when the page is settled.
        ctx.send({}, type="test.noop", queue="q" * 300)


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""
    handlers.topic(
        "ordered",
        mode="sequential",
        key="/key",
        retry=Fixed(base="100ms", attempts=3, jitter="none"),
    )
    handlers.topic(
        "skipping",
        mode="sequential",
        key="/key",
        on_failure="skip",
        retry=Fixed(base="100ms", attempts=3, jitter="none"),
    )
    handlers.event("test.turn", topic="ordered")(_take)
    handlers.event("test.other_turn", topic="ordered")(_take)
    handlers.event("test.skipping_turn", topic="skipping")(_take)
