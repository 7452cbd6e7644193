"""The plugin that the tests' workers load, installed and found as a user's plugin is.

Well-behaved handlers write to `ledger(kind, row_id, note)` in their own transaction, so that a test
can count every effect; the others misbehave in the one way that their name says.
"""

import asyncio
import os
import signal
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Defer,
    Event,
    EventContext,
    Fixed,
    Handlers,
    Reject,
    Retry,
)

handlers = Handlers("testplugin")

QUICK = Fixed(base="100ms", attempts=3, jitter="none")


class Note(BaseModel):
    """What most handlers take; `n` numbers the input, `wait` is in seconds."""

    n: int = 0
    wait: float = 0
    sends: int = 0


async def _write(ctx: EventContext | CommandContext, kind: str, row_id: int, note: str) -> None:
    await ctx.connection.execute(
        "insert into ledger (kind, row_id, note) values ($1, $2, $3)", kind, row_id, note
    )


# ------------------------------------------------------------------------------ well-behaved


@handlers.event("test.noop")
async def noop_event(event: Event[Note], ctx: EventContext) -> None:
    """Do nothing."""


@handlers.event("test.ledger", retry=QUICK)
async def ledger_event(event: Event[Note], ctx: EventContext) -> None:
    """Write one effect, wait, and send so many commands."""
    await _write(ctx, "event", event.id, str(event.payload.n))
    if event.payload.wait:
        await asyncio.sleep(event.payload.wait)
    for n in range(event.payload.sends):
        ctx.send({"n": n}, type="test.ledger")


@handlers.event("test.fan")
async def fan_event(event: Event[Note], ctx: EventContext) -> None:
    """Send so many commands that do nothing."""
    for n in range(event.payload.sends):
        ctx.send({"n": n}, type="test.noop")


@handlers.event("test.later", as_command=True, queue="later")
async def later_event(event: Event[Note], ctx: CommandContext) -> None:
    """Write one effect, as a command."""
    await _write(ctx, "later", event.id, str(event.payload.n))


@handlers.command("test.noop")
async def noop_command(command: Note, ctx: CommandContext) -> None:
    """Do nothing."""


@handlers.command("test.ledger", retry=QUICK)
async def ledger_command(command: Note, ctx: CommandContext) -> dict[str, Any] | None:
    """Write one effect, wait, and send so many commands."""
    await _write(ctx, "command", ctx.id, str(command.n))
    if command.wait:
        await asyncio.sleep(command.wait)
    for n in range(command.sends):
        ctx.send({"n": n}, type="test.noop")
    return {"n": command.n} if command.n else None


@handlers.command("test.wait", queue="slow", retry=QUICK)
async def wait_command(command: Note, ctx: CommandContext) -> None:
    """Wait, without a transaction."""
    ctx.log.info("waiting", n=command.n)
    await asyncio.sleep(command.wait)


@handlers.command("test.thread")
def thread_command(command: Note, ctx: BlockingCommandContext) -> None:
    """Write one effect from a thread."""
    ctx.connection.execute(
        "insert into ledger (kind, row_id, note) values ('thread', $1, $2)", ctx.id, str(command.n)
    )


@handlers.command("test.process", executor="process", timeout="2s", retry=QUICK)
def process_command(command: Note) -> dict[str, int]:
    """Compute in a process of its own."""
    if command.wait:
        time.sleep(command.wait)
    return {"square": command.n**2, "pid": os.getpid()}


# -------------------------------------------------------------------------------- misbehaving


class Strict(BaseModel):
    """Refuses what is not as declared."""

    name: str
    ages: list[int]


@handlers.event("test.strict", schema_version=2)
async def strict_event(event: Event[Strict], ctx: EventContext) -> None:
    """Take version 2 only, or what the upcaster makes of version 1."""


@handlers.upcaster("test.strict", from_version=1)
def strict_from_1(payload: Any) -> Any:
    """Version 1 had one age."""
    return {"name": payload["name"], "ages": [payload["age"]]}


@handlers.event("test.misbehave", retry=QUICK, timeout="500ms")
async def misbehaving_event(event: Event[dict[str, Any]], ctx: EventContext) -> None:
    """Write an effect, and then misbehave as told."""
    await _write(ctx, "event", event.id, "misbehaved")
    await _misbehave(event.payload, ctx)


@handlers.command("test.misbehave", retry=QUICK, timeout="500ms")
async def misbehaving_command(command: dict[str, Any], ctx: CommandContext) -> None:
    """Write an effect if told to, and then misbehave as told."""
    if command.get("touch", True):
        await _write(ctx, "command", ctx.id, "misbehaved")
    await _misbehave(command, ctx)


async def _misbehave(how: dict[str, Any], ctx: EventContext | CommandContext) -> None:
    match how["how"]:
        case "raise":
            raise ValueError("as told")
        case "base exception":
            raise SystemExit(3)
        case "cancelled":
            raise asyncio.CancelledError
        case "hang":
            await asyncio.sleep(3600)
        case "block":
            time.sleep(how["seconds"])  # noqa: ASYNC251 - that is the misbehaviour
        case "break transaction":
            try:
                await ctx.connection.execute("select 1/0")
            except Exception:  # noqa: BLE001, S110 - swallowed on purpose
                pass
        case "commit":
            await ctx.connection.execute("commit")
        case "hidden commit":
            await ctx.connection.execute("/* */ commit")
        case "close":
            await ctx.connection.fetchval("select pg_terminate_backend(pg_backend_pid())")
        case "deferred":
            await ctx.connection.execute("insert into child (parent) values (-1)")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "retry":
            raise Retry(after=0.05, reason="as told")
        case "reject":
            raise Reject("as told")
        case "defer":
            raise Defer(until=datetime.now(UTC) + timedelta(seconds=how["seconds"]))
        case "never mind":
            return
