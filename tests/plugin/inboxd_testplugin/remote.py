"""A handler of a target outside the database, which is in `tests/support/target.py`."""

import asyncio
import os
from contextlib import closing

from pydantic import BaseModel

from inboxd import CommandContext, Fixed, Handlers

_QUICK = Fixed(base="100ms", attempts=1_000, jitter="none")


class Asked(BaseModel):
    """The port of the target."""

    port: int


def add_to(handlers: Handlers) -> None:
    """Register the handler of this module."""
    handlers.breaker(
        "remote", consecutive_failures=3, first_break="1s", longest_break="1s", jitter=0, probes=1
    )

    @handlers.command("test.remote", breaker="remote", retry=_QUICK)
    async def remote(command: Asked, ctx: CommandContext) -> None:
        """Call the target: send key and process, and read a line."""
        reader, writer = await asyncio.open_connection("127.0.0.1", command.port)
        with closing(writer):
            writer.write(f"{ctx.idempotency_key} {os.getpid()}\n".encode())
            answer = await reader.readline()
        if answer != b"done\n":
            raise ConnectionError("the target is down")
