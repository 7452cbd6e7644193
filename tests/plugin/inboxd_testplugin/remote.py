"""A handler of a target outside the database: `tests/support/target.py` listens there."""

import asyncio
import os
from contextlib import closing

from pydantic import BaseModel

from inboxd import CommandContext, Fixed, Handlers

_QUICK = Fixed(base="100ms", attempts=1_000, jitter="none")


class Asked(BaseModel):
    """Where the target listens."""

    port: int


def add_to(handlers: Handlers) -> None:
    """Register it."""
    handlers.breaker(
        "remote", consecutive_failures=3, first_break="1s", longest_break="1s", jitter=0, probes=1
    )

    @handlers.command("test.remote", breaker="remote", retry=_QUICK)
    async def remote(command: Asked, ctx: CommandContext) -> None:
        """One call: the key and the process, answered by one word."""
        reader, writer = await asyncio.open_connection("127.0.0.1", command.port)
        with closing(writer):
            writer.write(f"{ctx.idempotency_key} {os.getpid()}\n".encode())
            answer = await reader.readline()
        if answer != b"done\n":
            raise ConnectionError("the target is down")
