"""Commands with ordering keys: they leave a trail, in which their order can be read."""

import asyncio
import time

from pydantic import BaseModel

from inboxd import CommandContext, Fixed, Handlers


class Step(BaseModel):
    """The n-th step of a key; it fails until attempt `good_at`.

    What it sends at attempt `refused_at` is refused by the database.
    """

    key: str = "k"
    n: int = 0
    wait: float = 0
    good_at: int = 1
    touch: bool = True
    refused_at: int = 0


def add_to(handlers: Handlers) -> None:
    """Register them."""

    @handlers.command(
        "test.step", queue="lines", retry=Fixed(base="100ms", attempts=3, jitter="none")
    )
    async def step(command: Step, ctx: CommandContext) -> dict[str, float]:
        """Leave a step in `trail`, in its own transaction, and say from when to when it ran."""
        began = time.monotonic()
        if command.touch:
            await ctx.connection.execute(
                "insert into trail (key, n) values ($1, $2)", command.key, command.n
            )
        if command.wait:
            await asyncio.sleep(command.wait)  # its work
        if ctx.attempt < command.good_at:
            raise ValueError("as told")
        if ctx.attempt == command.refused_at:
            ctx.send({}, type="test.noop", queue="q" * 300)
        return {"began": began, "ended": time.monotonic()}
