"""Commands with ordering keys: each writes to `trail`, which shows their order."""

import asyncio
import time

from pydantic import BaseModel

from inboxd import CommandContext, Fixed, Handlers


class Step(BaseModel):
    """The n-th step of a key; it fails before attempt `good_at`.

    At attempt `refused_at` it sends a command that the database refuses.
    """

    key: str = "k"
    n: int = 0
    wait: float = 0
    good_at: int = 1
    touch: bool = True
    refused_at: int = 0


def add_to(handlers: Handlers) -> None:
    """Register the handlers of this module."""

    @handlers.command(
        "test.step", queue="lines", retry=Fixed(base="100ms", attempts=3, jitter="none")
    )
    async def step(command: Step, ctx: CommandContext) -> dict[str, float]:
        """Write to `trail` in its own transaction, and return the times of begin and end."""
        began = time.monotonic()
        if command.touch:
            await ctx.connection.execute(
                "insert into trail (key, n) values ($1, $2)", command.key, command.n
            )
        if command.wait:
            await asyncio.sleep(command.wait)  # the handler's work
        if ctx.attempt < command.good_at:
            raise ValueError("as told")
        if ctx.attempt == command.refused_at:
            ctx.send({}, type="test.noop", queue="q" * 300)
        return {"began": began, "ended": time.monotonic()}
